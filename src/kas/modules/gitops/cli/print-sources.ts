import { printable, printableJson } from '../../../../lib/printable.ts'
import type { PrintableOutput } from '../../../../lib/printable-output.ts'
import { type Data, dataText, type OutputKind, type Printing } from '../../../command/output.ts'
import { yamlText } from '../../../command/yaml-text.ts'
import type { SourceChange, SourceList, SourceStatus, SourcesStateChange } from './output-kinds.ts'
import { type Shown, sourceStatus, sourcesDescription } from './source-list.ts'
import type { ShownSource, ShownState } from './state.ts'
import { nameOf, statusText } from './status-text.ts'

/**
 * Returns the data of a command's answer.
 *
 * @param state - undefined: kas was not reached
 * @param message - reason of the exit code; empty: none
 */
export function sourceListData(state: ShownState | undefined, shown: Shown, message = ''): Data<SourceList> {
  const sources = sortedSources(state)
  return {
    kind: 'SourceList',
    fields: {
      ...sourcesDescription(state, shown),
      message: message === '' ? undefined : message,
      items: sources.map((each) => sourceStatus(each, shown.at)),
    },
    names: sources.map(({ source }) => printable(`source/${source}`)),
    table: (isWide, hasHeaders) =>
      state ? statusText({ ...state, sources }, shown.agentId, { isWide, hasHeaders }) : '',
  }
}

/** Prints each change of the sources: the whole table for people, one object per line for programs. */
export class SourceWatch {
  readonly #stdout: PrintableOutput
  readonly #output: Printing['output']
  readonly #hasHeaders: boolean
  #text = ''
  /** printed sources, by id; a change of `key` is a change of the source */
  readonly #printed = new Map<string, { readonly key: string; readonly source: SourceStatus }>()
  #stateKey = ''

  constructor(stdout: PrintableOutput, { output, hasHeaders }: Pick<Printing, 'output' | 'hasHeaders'>) {
    this.#stdout = stdout
    this.#output = output
    this.#hasHeaders = hasHeaders
  }

  async print(state: ShownState, shown: Shown): Promise<void> {
    if (this.#output === 'json' || this.#output === 'yaml') return this.#printChanges(state, shown)
    const text = await dataText(sourceListData(state, shown), this.#output, this.#hasHeaders)
    if (text !== this.#text) this.#stdout.write(text)
    this.#text = text
  }

  #printChanges(state: ShownState, shown: Shown): void {
    const sources = sortedSources(state)
    for (const each of sources) {
      const key = textWithoutAges(each)
      const before = this.#printed.get(each.source)
      if (before?.key === key) continue
      const source = sourceStatus(each, shown.at)
      this.#printed.set(each.source, { key, source })
      this.#printSource(before ? 'MODIFIED' : 'ADDED', source)
    }
    const ids = new Set(sources.map(({ source }) => source))
    for (const [id, { source }] of this.#printed) {
      if (ids.has(id)) continue
      this.#printed.delete(id)
      this.#printSource('DELETED', source)
    }
    const { sources: _, ...rest } = state
    const key = textWithoutAges({ ...rest, exitCode: shown.exitCode })
    if (key === this.#stateKey) return
    this.#stateKey = key
    const change: SourcesStateChange = {
      apiVersion: 'kas/v1',
      kind: 'SourcesStateChange',
      type: 'STATE',
      ...sourcesDescription(rest, shown),
    }
    this.#printLine(change)
  }

  #printSource(type: SourceChange['type'], source: SourceStatus): void {
    const change: SourceChange = { apiVersion: 'kas/v1', kind: 'SourceChange', type, source }
    this.#printLine(change)
  }

  #printLine(value: OutputKind): void {
    this.#stdout.write(this.#output === 'yaml' ? `---\n${yamlText(value)}` : `${printableJson(value)}\n`)
  }
}

function sortedSources(state: ShownState | undefined): ShownSource[] {
  return state?.sources.toSorted(byName) ?? []
}

function byName(one: ShownSource, other: ShownSource): number {
  return nameOf(one).localeCompare(nameOf(other), 'en') || one.source.localeCompare(other.source, 'en')
}

/** Returns the JSON without ages: they grow with each answer, which is no change. */
function textWithoutAges(value: object): string {
  return JSON.stringify(value, (key, one) => (key === 'age_ms' ? undefined : one))
}
