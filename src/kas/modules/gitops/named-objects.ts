/** Names of objects in a text for people, in the form that agentk gives them (`keyName`). */

/** An object that a text names. */
export interface NamedObject {
  readonly group: string
  readonly kind: string
  /** empty: it has none */
  readonly namespace: string
  readonly name: string
}

/** Limit of the objects of one text: a text with more is as one that names others. */
export const maxNamed = 50

const kind = '\\b(?<kind>[A-Z][A-Za-z0-9]*)'
/** A group, but no path as in `Deployment.spec.replicas of`. */
const ofGroup = '(?:\\.(?!(?:spec|metadata|status|data)\\b)[a-z0-9-]+)'
const name = '(?<name>[^\\s,;"\'()/]+)'
const end = '(?=[\\s,;"\'()]|$)'
/** Forms of names: `Deployment.apps shop/web`. Without a namespace any word may pass for a kind of the core group. */
const forms = [
  `${kind}(?<group>${ofGroup}*) (?<namespace>[a-z0-9-]+)/${name}`,
  `${kind}(?<group>${ofGroup}+) ${name}${end}`,
  `\\b(?<kind>Namespace|Node|PersistentVolume) ${name}${end}`,
].map((form) => new RegExp(form, 'g'))
/** Signs after a name that end a part of a sentence. */
const afterName = /[.:]+$/

/** Returns the objects that a text names, at most one more than `maxNamed`. */
export function objectsNamedIn(text: string): readonly NamedObject[] {
  const found: NamedObject[] = []
  for (const form of forms) {
    for (const { groups = {} } of text.matchAll(form)) {
      if (found.length > maxNamed) return found
      const { kind = '', group = '', namespace = '', name = '' } = groups
      found.push({ group: group.slice(1), kind, namespace, name: name.replace(afterName, '') })
    }
  }
  return found
}
