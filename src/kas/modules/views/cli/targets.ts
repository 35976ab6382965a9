import { parseKindKey } from '../../../../kubernetes/kind.ts'
import { kindWord } from '../../../../kubernetes/kind-words.ts'
import type { Row } from '../../../../proto/views-json.ts'
import type { Target } from './manifests.ts'
import type { ShownView } from './shown-view.ts'

export interface FoundTargets {
  /** rows that match a target */
  readonly rows: ReadonlySet<Row>
  /** targets that do not exist, or not in the requested generation */
  readonly missing: readonly Target[]
}

/**
 * Finds the rows of the targets.
 *
 * A word that is neither kind nor plural of a row's kind may be its short name, which the agent knows and does not
 * send. The target exists then if a row with its name is left that no other target matches. Each of several such
 * targets needs a row of its own.
 */
export function findTargets(model: ShownView, targets: readonly Target[], rows: readonly Row[]): FoundTargets {
  const byName = Map.groupBy(rows, ({ n }) => n)
  const found = new Set<Row>()
  const unnamed: Target[] = []
  const missing: Target[] = []
  for (const target of targets) {
    const there = (byName.get(target.name) ?? []).filter((row) => isThere(target, row))
    const named = there.filter((row) => names(model, target, row))
    for (const row of named) found.add(row)
    if (named.length > 0) continue
    if (isShort(target)) unnamed.push(target)
    else missing.push(target)
  }
  const taken = new Set(found)
  for (const target of unnamed) {
    const left = (byName.get(target.name) ?? []).filter((row) => isThere(target, row) && !taken.has(row))
    const [first] = left
    if (first) for (const row of left) if (row.k === first.k) taken.add(row)
    // the agent alone knows which of them is meant: all count
    for (const row of left) found.add(row)
    if (!first) missing.push(target)
  }
  return { rows: found, missing }
}

function isThere({ namespace, uid, generation = 0 }: Target, { ns, u, g }: Row): boolean {
  const isPlace = !namespace || !ns || ns === namespace
  return isPlace && (uid === undefined || uid === u) && (g === undefined || g >= generation)
}

function names({ kinds }: ShownView, { kind }: Target, { k }: Row): boolean {
  const [, plural = ''] = kinds.get(k) ?? []
  return kindWord(kind).names({ key: k, group: parseKindKey(k).group, plural })
}

const isShort = ({ kind }: Target) => !kind.includes('/') && kindWord(kind).builtIn.length === 0
