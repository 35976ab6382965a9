/** characters of a text that is kept */
export const maxText = 512
/** characters of a name; the API server allows 253 */
export const maxName = 253
/** characters of one fact */
export const maxFact = 128
/** facts of an object */
export const maxFacts = 6
/** labels of an object */
export const maxLabels = 64
/** characters of all labels of an object */
export const maxLabelText = 4096
/** owners of an object besides the first */
export const maxOwners = 16
/** references of an object */
export const maxReferences = 1000
/** labels of a selector, and its expressions */
export const maxSelector = 64
/** characters of a selector */
export const maxSelectorText = 8192
/** characters of all owners of an object */
export const maxOwnerText = 4096

/** Copies the text that is kept, so that the rest is freed. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : Buffer.from(text.slice(0, most)).toString()
}
