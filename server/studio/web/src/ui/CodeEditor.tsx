import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { linter } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import { drawSelection, EditorView, keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--code-key)" },
  { tag: tags.string, color: "var(--code-string)" },
  { tag: tags.number, color: "var(--code-number)" },
  { tag: [tags.bool, tags.null], color: "var(--code-atom)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "transparent" },
  ".cm-content": { caretColor: "var(--text)", padding: "8px 4px" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)",
  },
  ".cm-tooltip": { backgroundColor: "var(--surface)", borderColor: "var(--border)", color: "var(--text)" },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
});

export interface Props {
  value: string;
  onChange(value: string): void;
  /** Describes the text to screen readers. */
  label: string;
  /** Ctrl+Enter. */
  onSubmit?(): void;
  readOnly?: boolean;
}

/** CodeEditor edits JSON as text. It is most of the page's script, so JsonEditor loads it separately. */
export default function CodeEditor({ value, onChange, label, onSubmit, readOnly }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const latest = useRef({ value, onChange, onSubmit });
  // It runs before the effect that sets values, whose changes are not the user's.
  useEffect(() => {
    latest.current = { value, onChange, onSubmit };
  });
  useEffect(() => {
    const v = new EditorView({
      parent: host.current!,
      state: EditorState.create({
        doc: value,
        extensions: [
          history(),
          drawSelection(),
          bracketMatching(),
          json(),
          linter((v) => (v.state.doc.length > 0 ? jsonParseLinter()(v) : [])),
          syntaxHighlighting(colours),
          look,
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": label }),
          EditorState.readOnly.of(!!readOnly),
          keymap.of([
            {
              key: "Mod-Enter",
              run() {
                latest.current.onSubmit?.();
                return !!latest.current.onSubmit;
              },
            },
            // Escape and then Tab leaves the editor, as CodeMirror documents.
            indentWithTab,
            ...defaultKeymap,
            ...historyKeymap,
          ]),
          EditorView.updateListener.of((u) => {
            if (!u.docChanged) return;
            const text = u.state.doc.toString();
            if (text !== latest.current.value) latest.current.onChange(text);
          }),
        ],
      }),
    });
    view.current = v;
    return () => v.destroy();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- The editor is created once; the next effect sets values.
  }, []);
  useEffect(() => {
    const v = view.current;
    if (v && v.state.doc.toString() !== value)
      v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: value } });
  }, [value]);
  return <div className="editor" ref={host} />;
}
