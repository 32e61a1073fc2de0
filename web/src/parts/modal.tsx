// Dialogs. A modal one asks and must be answered; a drawer stands beside the page, which stays
// alive.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { Icon } from "./icon";

interface ModalProps {
  title: string;
  /** Asked when somebody wants to leave; false keeps the dialog open. */
  close: () => false | void;
  children: ComponentChildren;
}

interface QuestionProps {
  title: string;
  text: string;
  /** What the button says that does it. */
  yes: string;
  accept: () => void;
  refuse: () => void;
}

export function Modal({ title, close, children }: ModalProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const gone = useRef(false);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const element = dialog.current;
    element?.showModal();
    return () => {
      gone.current = true;
      // Nothing below an open one takes the focus.
      element?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // A browser may close it at a second Escape without asking.
  const closed = () => { if (!gone.current && close() === false) dialog.current?.showModal(); };
  return (
    <dialog
      ref={dialog} class="modal" aria-labelledby={id} onClose={closed}
      onCancel={(event) => { if (close() === false) event.preventDefault(); }}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}

/** Ctrl+Enter sends a form whose text takes Enter for itself. */
export function sendByKey(event: KeyboardEvent): void {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  const form = event.currentTarget;
  if (!(form instanceof HTMLFormElement)) return;
  event.preventDefault();
  form.requestSubmit();
}

/** Asks before something is lost; Escape and the first button keep it. */
export function Question({ title, text, yes, accept, refuse }: QuestionProps) {
  return (
    <Modal title={title} close={refuse}>
      <p class="consequence">{text}</p>
      <div class="buttons">
        <button type="button" onClick={refuse} autofocus>Go back</button>
        <button type="button" class="danger" onClick={accept}>{yes}</button>
      </div>
    </Modal>
  );
}

export function Drawer({ title, close, children }: ModalProps) {
  const drawer = useRef<HTMLDivElement>(null);
  const id = useId();
  const newest = useRef(close);
  newest.current = close;
  useEffect(() => {
    const before = document.activeElement;
    drawer.current?.focus();
    const escape = (event: KeyboardEvent) => {
      // A modal dialog above the drawer has Escape for itself.
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) newest.current();
    };
    addEventListener("keydown", escape);
    return () => {
      removeEventListener("keydown", escape);
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, [title]);
  return (
    <div ref={drawer} class="drawer" role="dialog" aria-labelledby={id} tabIndex={-1}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="quiet" onClick={close} aria-label="Close">
          <Icon name="close" />
        </button>
      </header>
      <div class="drawer-body" tabIndex={0} role="group" aria-label={`${title}, details`}>{children}</div>
    </div>
  );
}
