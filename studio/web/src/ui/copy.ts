/** copyText puts a text on the clipboard, which pages may only do over https or on this machine. */
export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error("The browser gives pages the clipboard only over https or on localhost.");
  await navigator.clipboard.writeText(text);
}
