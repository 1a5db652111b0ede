/** copyText copies text to the clipboard, which browsers allow only over HTTPS or on localhost. */
export async function copyText(text: string): Promise<void> {
  if (!navigator.clipboard) throw new Error("The clipboard is available only over HTTPS or on localhost.");
  await navigator.clipboard.writeText(text);
}
