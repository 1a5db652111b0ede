import * as Radix from "@radix-ui/react-dialog";
import type { ReactNode } from "react";
import { Button } from "./Button";
import { Icon } from "./Icon";

export function Dialog({
  title,
  open,
  onClose,
  children,
  foot,
  wide,
}: {
  title: string;
  open: boolean;
  onClose(): void;
  children: ReactNode;
  foot?: ReactNode;
  wide?: boolean;
}) {
  return (
    <Radix.Root open={open} onOpenChange={(o) => (o ? undefined : onClose())}>
      <Radix.Portal>
        <Radix.Overlay className="overlay" />
        <Radix.Content className={wide ? "dialog wide" : "dialog"} aria-describedby={undefined}>
          <div className="dialog-head">
            <Radix.Title asChild>
              <h2>{title}</h2>
            </Radix.Title>
            <Radix.Close asChild>
              <Button kind="quiet" label="Close">
                <Icon name="close" />
              </Button>
            </Radix.Close>
          </div>
          <div className="dialog-body">{children}</div>
          {foot ? <div className="dialog-foot">{foot}</div> : null}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** CreateDialog asks for something new. */
export function CreateDialog({
  title,
  ready,
  busy,
  onCreate,
  onClose,
  children,
}: {
  title: string;
  ready: boolean;
  busy: boolean;
  onCreate(): void;
  onClose(): void;
  children: ReactNode;
}) {
  return (
    <Dialog
      title={title}
      open
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" busy={busy} disabled={!ready} onClick={onCreate}>
            Create
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}

/** Confirm asks before something is lost. */
export function Confirm({
  title,
  children,
  action,
  open,
  onClose,
  onConfirm,
}: {
  title: string;
  children: ReactNode;
  action: string;
  open: boolean;
  onClose(): void;
  onConfirm(): void;
}) {
  return (
    <Dialog
      title={title}
      open={open}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Keep</Button>
          <Button
            kind="danger"
            onClick={() => {
              onClose();
              onConfirm();
            }}
          >
            {action}
          </Button>
        </>
      }
    >
      {children}
    </Dialog>
  );
}
