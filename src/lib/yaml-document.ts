import { Composer, type Document, isScalar, type LineCounter, Parser, visit, type YAMLMap } from 'yaml'

export interface YamlFault {
  readonly offset: number
  readonly message: string
}

/** In one file, whose author may not be one of ours: the library looks through the whole file for each. */
const maxAliases = 200
/** What stands behind so many faults is not looked at. */
const maxFaults = 100

/**
 * Reads one YAML document, in a time that grows with its length alone: that keys are unique is checked here, for the
 * library compares each with all.
 *
 * @param lines - gets where the lines begin
 */
export function parseYamlDocument(
  text: string,
  lines: LineCounter,
): { document: Document; faults: readonly YamlFault[] } {
  const composer = new Composer({ merge: true, prettyErrors: false, uniqueKeys: false })
  const composed = composer.compose(upToFaults(new Parser(lines.addNewLine).parse(text)), true, text.length)
  const first = composed.next()
  if (first.done) throw new Error('a document is composed from any text')
  const document = first.value
  const faults = document.errors.map(({ pos, message }) => ({ offset: pos[0], message }))
  const second = composed.next()
  if (!second.done) faults.push({ offset: second.value.range[0], message: 'more than one document' })
  return { document, faults: faults.length > 0 ? faults : structureFaults(document) }
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
  let aliases = 0
  visit(document, {
    Alias: (_, { range }) => {
      if (++aliases <= maxAliases) return undefined
      faults.push({ offset: range?.[0] ?? 0, message: `more than ${maxAliases} aliases` })
      return visit.BREAK
    },
    Map: (_, map) => void faults.push(...keyFaults(map)),
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
