import { isKubernetesOwn } from '../../../health/kas/root-causes/counting.ts'
import type { ObjectRecord, ReadonlyRecords } from '../store/record.ts'
import { AsideBelow } from '../tree/aside-below.ts'
import type { Forest } from '../tree/forest.ts'
import { type Entry, Family } from '../tree/forest-node.ts'
import { maxReadPerUpdate } from './view-causes.ts'

interface Found {
  readonly kinds: readonly string[]
  /** versions of all that it was found from */
  readonly from: string
}

const none: readonly string[] = []

/** Finds the kinds that are set aside, and from which the verdicts of one view's rows are made. */
export class ViewAside {
  readonly #records: ReadonlyRecords
  /** by row */
  readonly #found = new Map<string, Found>()

  constructor({ records }: { readonly records: ReadonlyRecords }) {
    this.#records = records
  }

  of(id: string): readonly string[] {
    return this.#found.get(id)?.kinds ?? none
  }

  /**
   * @param aside - `group/Kind` of kinds that the caller may list
   * @returns rows that differ now; `isWhole`: all were read
   */
  update(
    forest: Forest,
    shown: ReadonlyMap<string, Entry>,
    aside: readonly string[],
  ): { changed: readonly string[]; isWhole: boolean } {
    const changed: string[] = []
    for (const [id, { kinds }] of this.#found) {
      if (shown.has(id) && aside.length > 0) continue
      this.#found.delete(id)
      if (kinds.length > 0) changed.push(id)
    }
    if (aside.length === 0) return { changed, isWhole: true }
    const { opinions, linksVersion } = forest.visible
    const from = [opinions.version, linksVersion, forest.placesVersion, ...aside].join(' ')
    const below = new AsideBelow(this.#records, forest.visible, aside)
    const unknown = [...shown.keys()].filter((id) => !this.#found.has(id))
    for (const id of [...unknown, ...this.#found.keys()]) {
      const known = this.#found.get(id)
      if (known?.from === from) continue
      if (below.read >= maxReadPerUpdate) return { changed, isWhole: false }
      const kinds = below.of(objectsOf(shown.get(id) as Entry))
      this.#found.delete(id)
      this.#found.set(id, { kinds, from })
      if (kinds.join() !== (known?.kinds ?? none).join()) changed.push(id)
    }
    return { changed, isWhole: true }
  }
}

/** Objects of an entry. Many of one of Kubernetes' own kinds are alike, so one is enough. */
function objectsOf(entry: Entry): readonly ObjectRecord[] {
  if (entry.record) return [entry.record]
  if (!(entry instanceof Family)) return []
  const members = isKubernetesOwn(entry.kind) ? entry.members.slice(0, 1) : entry.members
  return members.flatMap(({ record }) => record ?? [])
}
