import { type Document, isMap, isNode, isScalar, isSeq, LineCounter, type Pair } from 'yaml'
import { parseYamlDocument } from '../../lib/yaml-document.ts'

/**
 * Finds the lines of keys in a YAML text. Keys are as in `lib/config.ts`: `agent.listen.websocket`,
 * `cluster.discovery.static[0]`.
 *
 * @returns function that returns the line of a key, or of the nearest block above an absent key; undefined: there is
 *   neither
 */
export function configLines(text: string): (key: string) => number | undefined {
  const lines = new LineCounter()
  const { document, faults } = parseYamlDocument(text, lines)
  if (faults.length > 0) return () => undefined
  return (key) => {
    const offset = offsetOf(document, key)
    return offset === undefined ? undefined : lines.linePos(offset).line
  }
}

function offsetOf(document: Document, key: string): number | undefined {
  let node: unknown = document.contents
  let rest = key
  let offset: number | undefined
  while (rest !== '') {
    const step = isMap(node) ? pairStep(node.items, rest) : isSeq(node) ? itemStep(node.items, rest) : undefined
    if (!step) return offset
    offset = step.offset ?? offset
    node = step.node
    rest = step.rest
  }
  return offset
}

interface Step {
  readonly node: unknown
  readonly offset: number | undefined
  readonly rest: string
}

/** Finds the pair for the next name. A name may have dots itself, so the longest that matches counts. */
function pairStep(pairs: readonly Pair[], rest: string): Step | undefined {
  const names = pairs.flatMap((pair) => {
    const name = isScalar(pair.key) ? String(pair.key.value) : undefined
    return name !== undefined && isNext(rest, name) ? [{ name, pair }] : []
  })
  const [longest] = names.sort((one, other) => other.name.length - one.name.length)
  if (!longest) return undefined
  const { name, pair } = longest
  return { node: pair.value, offset: startOf(pair.key), rest: rest.slice(name.length).replace(/^\./, '') }
}

const isNext = (rest: string, name: string) =>
  rest === name || rest.startsWith(`${name}.`) || rest.startsWith(`${name}[`)

function itemStep(items: readonly unknown[], rest: string): Step | undefined {
  const [whole = '', index] = /^\[(\d+)\]\.?/.exec(rest) ?? []
  const node = index === undefined ? undefined : items[Number(index)]
  return node === undefined ? undefined : { node, offset: startOf(node), rest: rest.slice(whole.length) }
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined
}
