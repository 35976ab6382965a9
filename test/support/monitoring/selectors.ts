/** A selector in an expression of PromQL. */
export interface Selector {
  readonly metric: string
  /** a label may occur more than once */
  readonly matchers: readonly { readonly label: string; readonly values: readonly string[] }[]
}

const words = new Set([
  'or',
  'and',
  'unless',
  'offset',
  'bool',
  'group_left',
  'group_right',
  'by',
  'without',
  'on',
  'ignoring',
])

/** Parses the subset of PromQL in deploy/monitoring: metrics with their matchers, without subqueries and `__name__`. */
export function selectorsOf(expression: string): Selector[] {
  const bare = expression
    .replaceAll(/\b(?:by|without|on|ignoring)\s*\([^)]*\)/g, ' ')
    .replaceAll(/\[[^\]]*\]/g, ' ')
    .replaceAll(/\boffset\s+\w+/g, ' ')
  return [...bare.matchAll(/(?<![\w"])([a-zA-Z_:][\w:]*)\s*(\(|\{[^}]*\})?/g)].flatMap(([, metric = '', next = '']) => {
    if (next === '(' || words.has(metric)) return []
    const matchers = [...next.matchAll(/(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"/g)]
    return [{ metric, matchers: matchers.map(([, label = '', value = '']) => ({ label, values: value.split('|') })) }]
  })
}

/** Metrics and labels in the text of `/metrics`. */
export class Exposition {
  readonly #names = new Set<string>()
  readonly #labels = new Map<string, Map<string, Set<string>>>()

  constructor(text: string) {
    for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
      this.#names.add(name)
      if (type === 'histogram') for (const part of ['bucket', 'count', 'sum']) this.#names.add(`${name}_${part}`)
    }
    for (const [, name = '', labels = ''] of text.matchAll(/^([a-zA-Z_:][\w:]*)\{(.*)\} \S+$/gm)) {
      for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
        this.#add(name, label, value)
    }
  }

  has(name: string): boolean {
    return this.#names.has(name)
  }

  /** Values of a metric's label so far. */
  valuesOf(name: string, label: string): readonly string[] {
    return [...(this.#labels.get(name)?.get(label) ?? [])]
  }

  #add(name: string, label: string, value: string): void {
    const labels = this.#labels.get(name) ?? new Map<string, Set<string>>()
    this.#labels.set(name, labels)
    labels.set(label, (labels.get(label) ?? new Set()).add(value))
  }
}
