import { useEffect, useRef, type ClipboardEvent } from "react";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { useTell } from "../../ui/Toast";
import { setDraft, useDraft } from "./drafts";
import { useAttach } from "./attach";

interface Props {
  thread: string | null;
  running: boolean;
  /** An interrupt is pending. */
  asked: boolean;
  onSend(): void;
  onStop(): Promise<void>;
}

export function Composer({ thread, running, asked, onSend, onStop }: Props) {
  const tell = useTell();
  const draft = useDraft(thread);
  const field = useRef<HTMLTextAreaElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const attach = useAttach(thread);
  const ready = !running && (draft.text.trim() !== "" || draft.images.length > 0);
  // The field is as tall as its text.
  useEffect(() => {
    const el = field.current;
    if (!el) return;
    el.style.height = "auto";
    el.style.height = `${Math.min(el.scrollHeight + 2, 220)}px`;
  }, [draft.text]);
  const paste = (e: ClipboardEvent) => {
    const images = [...e.clipboardData.files].filter((f) => f.type.startsWith("image/"));
    if (images.length === 0) return;
    e.preventDefault();
    void attach(images);
  };
  return (
    <form
      className="chat-composer"
      onSubmit={(e) => {
        e.preventDefault();
        if (ready) onSend();
      }}
    >
      {draft.images.length > 0 ? (
        <ul className="chat-attached" aria-label="Attached images">
          {draft.images.map((image, i) => (
            <li key={i}>
              <img src={image.src} alt={image.name} />
              <Button
                size="small"
                label={"Remove " + image.name}
                onClick={() => setDraft(thread, { images: draft.images.filter((_, j) => j !== i) })}
              >
                <Icon name="close" size={10} />
              </Button>
            </li>
          ))}
        </ul>
      ) : null}
      <div className="chat-composer-row">
        <input
          ref={files}
          type="file"
          accept="image/*"
          multiple
          hidden
          aria-label="Images"
          onChange={(e) => (void attach([...(e.target.files ?? [])]), (e.target.value = ""))}
        />
        <Button kind="quiet" label="Attach images" onClick={() => files.current?.click()}>
          <Icon name="image" />
        </Button>
        <textarea
          ref={field}
          rows={1}
          aria-label="Message"
          placeholder={asked ? "Send a message instead of an answer" : "Message"}
          value={draft.text}
          onChange={(e) => setDraft(thread, { text: e.target.value })}
          onPaste={paste}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
            e.preventDefault();
            if (ready) onSend();
          }}
        />
        {running ? (
          <Button label="Stop" onClick={() => void tell.attempt(onStop())}>
            <Icon name="stop" />
          </Button>
        ) : (
          <Button kind="primary" label="Send" type="submit" disabled={!ready}>
            <Icon name="up" />
          </Button>
        )}
      </div>
    </form>
  );
}
