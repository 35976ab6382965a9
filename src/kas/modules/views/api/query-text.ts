/** Objects, namespaces and kinds that a line of the access log names; the rest is counted. */
const maxNamed = 5
/** characters of such a text */
const maxText = 300

interface QueryShape {
  readonly view?: unknown
  readonly scope?: { readonly namespaces?: unknown; readonly environment?: unknown; readonly application?: unknown }
  readonly filter?: { readonly text?: unknown; readonly kinds?: unknown; readonly verdicts?: unknown }
  readonly objects?: unknown
  readonly labels?: unknown
  readonly graph?: unknown
}

/**
 * Describes a view for the access log: `list pods, apps/Deployment in shop`.
 *
 * @param query - JSON of a client, which the agent checks: nothing of it is trusted here
 */
export function queryText(query: Uint8Array): string {
  const { view, scope, filter, objects, labels, graph } = shapeOf(query)
  const namespaces = listOf(scope?.namespaces ?? namesIn(graph))
  const parts = [
    textOf(view) ?? 'a view',
    listText([...listOf(objects).map(objectText), ...listOf(filter?.kinds).map(textOf)]),
    prefixed('in', listText(namespaces.map(textOf))),
    prefixed('environment', textOf(scope?.environment)),
    prefixed('application', textOf(scope?.application)),
    prefixed('labels', textOf(labels)),
    prefixed('text', textOf(filter?.text)),
    prefixed('verdict', listText(listOf(filter?.verdicts).map(textOf))),
  ]
  const text = parts.filter((part) => part !== undefined && part !== '').join(' ')
  return text.length > maxText ? `${text.slice(0, maxText)}…` : text
}

function shapeOf(query: Uint8Array): QueryShape {
  try {
    return Object(JSON.parse(Buffer.from(query).toString('utf8'))) as QueryShape
  } catch {
    return {} // the agent refuses it
  }
}

/** Reads `namespaces: { names: [...] }` of doc/reference/graph.md. */
function namesIn(graph: unknown): unknown {
  const { namespaces } = Object(graph) as { namespaces?: unknown }
  return (Object(namespaces) as { names?: unknown }).names
}

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value.slice(0, maxText) : undefined
const prefixed = (word: string, text: string | undefined) => (text ? `${word} ${text}` : undefined)

function listText(texts: readonly (string | undefined)[]): string {
  const all = texts.filter((text) => text !== undefined)
  const more = all.length > maxNamed ? ` and ${all.length - maxNamed} more` : ''
  return `${all.slice(0, maxNamed).join(', ')}${more}`
}

function objectText(value: unknown): string | undefined {
  const { kind, name, namespace } = Object(value) as { kind?: unknown; name?: unknown; namespace?: unknown }
  const path = [kind, namespace, name].map(textOf).filter((part) => part !== undefined)
  return path.length === 0 ? undefined : path.join('/')
}
