package uselite

import "testing"

// paraphrases lists pairs with the same meaning, usually in different words.
var paraphrases = [][2]string{
	{"How do I reset my password?", "I forgot my login details and can't get into my account"},
	{"The package has not arrived yet", "My delivery is late"},
	{"She adores dogs", "Puppies are her favourite animals"},
	{"He is allergic to peanuts", "Eating nuts makes him ill"},
	{"The flight was cancelled because of the storm", "Bad weather grounded our plane"},
	{"Can I get my money back?", "I would like a refund"},
	{"The restaurant is closed on Mondays", "You can't eat there at the start of the week"},
	{"My laptop won't turn on", "The computer doesn't start"},
	{"They got married last summer", "Their wedding was in July"},
	{"The exam was really hard", "The test was very difficult"},
	{"He quit smoking", "He no longer uses cigarettes"},
	{"It is raining heavily", "There is a downpour outside"},
	{"I live in an apartment downtown", "My flat is in the city centre"},
	{"Turn the volume down", "Please make the music quieter"},
	{"The movie made me cry", "That film was so sad"},
	{"The doctor told me to rest", "My physician recommended taking it easy"},
	{"Prices went up this year", "Everything has become more expensive"},
	{"She speaks three languages", "She is fluent in English, French and Spanish"},
	{"The kids are asleep", "The children have gone to bed"},
	{"He lost his job", "His employer fired him"},
	{"I prefer tea over coffee", "I'd rather drink a cup of green tea than an espresso"},
	{"The bridge is being repaired", "Workers are fixing the road across the river"},
	{"We ran out of milk", "There is nothing left to put in my cereal"},
	{"The team won the championship", "The players brought home the trophy"},
	{"Where can I park my car?", "Is there somewhere to leave the vehicle?"},
	{"She plays the violin in an orchestra", "She is a professional musician"},
	{"The phone's battery dies quickly", "My mobile needs charging all the time"},
	{"He was born in Canada", "He comes from Toronto"},
	{"Plants need sunlight to grow", "Flowers won't do well in the dark"},
	{"The bank approved the loan", "We got the mortgage for our house"},
}

func TestParaphrasesAreNearest(t *testing.T) {
	var left, right []string
	for _, pair := range paraphrases {
		left, right = append(left, pair[0]), append(right, pair[1])
	}
	encoder := openModel(t)
	queries, err := encoder.Embed(t.Context(), left)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := encoder.Embed(t.Context(), right)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for i, query := range queries {
		best := 0
		for j := range answers {
			if dot(query, answers[j]) > dot(query, answers[best]) {
				best = j
			}
		}
		if best == i {
			found++
		} else {
			t.Logf("%q is nearest to %q", left[i], right[best])
		}
	}
	t.Logf("%d of %d are nearest to their paraphrase", found, len(paraphrases))
	if 10*found < 9*len(paraphrases) {
		t.Errorf("%d of %d are nearest to their paraphrase, want at least 90 %%", found, len(paraphrases))
	}
}

func dot(a, b []float32) (sum float32) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
