/** characters of a text that is kept */
export const maxText = 512
/** characters of names, which the API server lets have 253 */
export const maxName = 253
/** characters of one fact */
export const maxFact = 128
/** facts of an object */
export const maxFacts = 6
/** labels of an object, and characters of all of them */
export const maxLabels = 64
export const maxLabelText = 4096
/** other owners of an object */
export const maxOwners = 16
/** objects that one names */
export const maxReferences = 1000
/** labels, expressions and values of a selector */
export const maxSelector = 64
/** characters of all of it */
export const maxSelectorText = 8192
/** characters of all owners of an object */
export const maxOwnerText = 4096

/** A copy, so that the rest of a long text goes. */
export function cut(text: string, most: number): string {
  return text.length <= most ? text : Buffer.from(text.slice(0, most)).toString()
}
