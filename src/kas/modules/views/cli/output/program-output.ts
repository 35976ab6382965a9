import { printableJson } from '../../../../../lib/printable.ts'
import type { PrintableOutput } from '../../../../../lib/printable-output.ts'
import { dataText, type Output, type OutputKind } from '../../../../command/output.ts'
import { yamlText } from '../../../../command/yaml-text.ts'
import type { ShownView } from '../shown-view.ts'
import type { ProgramView } from './program-view.ts'
import { type ViewBeside, viewDescription } from './view-description.ts'

export interface ProgramOutputOptions {
  /** a format for programs */
  readonly output: Output
  readonly isWatching: boolean
}

/**
 * Prints a view for programs: once it is whole, or with `--watch` each change of an item and of the state, one per
 * line.
 */
export class ProgramOutput {
  readonly #stdout: PrintableOutput
  readonly #view: ProgramView
  readonly #options: ProgramOutputOptions
  /** items that were printed, as JSON, by their ids */
  readonly #printed = new Map<string, string>()
  #state = ''

  constructor(stdout: PrintableOutput, view: ProgramView, options: ProgramOutputOptions) {
    this.#stdout = stdout
    this.#view = view
    this.#options = options
  }

  async printList(model: ShownView, now: number, beside: ViewBeside): Promise<void> {
    const items = this.#view.items(model, now)
    const data = this.#view.list(model, viewDescription(model, beside), items)
    this.#stdout.write(await dataText(data, this.#options.output))
  }

  /** @param isWhole - true: an item that is not listed now was deleted */
  printChanges(
    model: ShownView,
    now: number,
    { isWhole, ...beside }: ViewBeside & { readonly isWhole: boolean },
  ): void {
    const items = new Map(this.#view.items(model, now).map((item) => [item.id, item]))
    for (const [id, item] of items) {
      const json = JSON.stringify(item)
      const before = this.#printed.get(id)
      if (before === json) continue
      this.#printed.set(id, json)
      this.#print(this.#view.change(before === undefined ? 'ADDED' : 'MODIFIED', item))
    }
    if (isWhole) {
      for (const [id, json] of this.#printed) {
        if (items.has(id)) continue
        this.#printed.delete(id)
        this.#print(this.#view.change('DELETED', JSON.parse(json)))
      }
    }
    const state = this.#view.state(model, viewDescription(model, beside), isWhole)
    // each update has another time, which alone is no change
    const key = JSON.stringify({ ...state, asOf: undefined })
    if (key === this.#state) return
    this.#state = key
    this.#print(state)
  }

  #print(value: OutputKind): void {
    const text = this.#options.output === 'yaml' ? `---\n${yamlText(value)}` : `${printableJson(value)}\n`
    this.#stdout.write(text)
  }
}
