import {
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type LineCounter,
  Parser,
  visit,
  type YAMLMap,
} from 'yaml'

export interface YamlLimits {
  /**
   * bound of keys, values, lists and blocks. Nodes of an alias count each time, because a small file can be a huge
   * tree. A long text counts once for every 64 characters
   */
  readonly maxNodes?: number
}

export interface YamlFault {
  readonly offset: number
  readonly message: string
}

/** Bound of aliases in one file, which may be of a foreign author: the library searches the whole file for each. */
const maxAliases = 200
const charactersOfNode = 64
/** Bound of faults, after which the rest is not read. */
const maxFaults = 100

/**
 * Reads one YAML document, in a time that grows in proportion to its length. This file checks that keys are unique,
 * because the library would compare each key with all others.
 *
 * @param lines - receives the offsets of the lines
 */
export function parseYamlDocument(
  text: string,
  lines: LineCounter,
  { maxNodes }: YamlLimits = {},
): { document: Document; faults: readonly YamlFault[] } {
  const composer = new Composer({ merge: true, prettyErrors: false, uniqueKeys: false })
  const composed = composer.compose(upToFaults(new Parser(lines.addNewLine).parse(text)), true, text.length)
  const first = composed.next()
  if (first.done) throw new Error('a document is composed from any text')
  const document = first.value
  const faults = document.errors.map(({ pos, message }) => ({ offset: pos[0], message }))
  const second = composed.next()
  if (!second.done) faults.push({ offset: second.value.range[0], message: 'more than one document' })
  if (faults.length === 0) faults.push(...structureFaults(document))
  if (faults.length === 0 && maxNodes !== undefined && nodesOf(document.contents, new Map()) > maxNodes) {
    faults.push({ offset: 0, message: `more than ${maxNodes} values, with those that aliases stand for` })
  }
  return { document, faults }
}

function* upToFaults<Token extends { type: string }>(tokens: Iterable<Token>): Generator<Token> {
  let faults = 0
  for (const token of tokens) {
    yield token
    if (token.type === 'error' && ++faults === maxFaults) return
  }
}

function structureFaults(document: Document): YamlFault[] {
  const faults: YamlFault[] = []
  const anchors = new Set<string>()
  const keep = ({ anchor }: { readonly anchor?: string }) => {
    if (anchor !== undefined) anchors.add(anchor)
  }
  let aliases = 0
  visit(document, {
    Value: (_, value) => keep(value),
    Alias: (_, alias) => {
      const offset = alias.range?.[0] ?? 0
      if (++aliases > maxAliases) {
        faults.push({ offset, message: `more than ${maxAliases} aliases` })
        return visit.BREAK
      }
      if (!anchors.has(alias.source))
        faults.push({ offset, message: `no &${alias.source} stands before *${alias.source}` })
      return undefined
    },
    Map: (_, map) => {
      keep(map)
      faults.push(...keyFaults(map))
    },
  })
  return faults
}

function keyFaults({ items }: YAMLMap): YamlFault[] {
  const known = new Set<string>()
  return items.flatMap(({ key }): YamlFault[] => {
    const offset = (key as { range?: readonly number[] } | null)?.range?.[0] ?? 0
    if (!isScalar(key)) return [{ offset, message: 'Map keys must be plain' }]
    const name = String(key.value)
    if (known.has(name)) return [{ offset, message: 'Map keys must be unique' }]
    known.add(name)
    return []
  })
}

/**
 * Counts the nodes below a node.
 *
 * @param anchored - number of nodes of each anchor so far: an alias means the newest anchor of its name
 */
function nodesOf(node: unknown, anchored: Map<string, number>): number {
  if (isAlias(node)) return anchored.get(node.source) ?? 1
  let nodes = 1
  if (isMap(node)) for (const { key, value } of node.items) nodes += nodesOf(key, anchored) + nodesOf(value, anchored)
  else if (isSeq(node)) for (const item of node.items) nodes += nodesOf(item, anchored)
  else if (isScalar(node) && typeof node.value === 'string') nodes += Math.floor(node.value.length / charactersOfNode)
  const { anchor } = (node ?? {}) as { anchor?: string }
  if (anchor !== undefined) anchored.set(anchor, nodes)
  return nodes
}
