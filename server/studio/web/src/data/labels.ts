// Namespaces and items in the address bar: their labels, separated by slashes.

export const linkOf = (labels: string[]): string => labels.map(encodeURIComponent).join("/");

/** labelsOf parses a link. A label that is not encoded correctly is taken literally. */
export const labelsOf = (link = ""): string[] =>
  link === ""
    ? []
    : link.split("/").map((label) => {
        try {
          return decodeURIComponent(label);
        } catch {
          return label;
        }
      });
