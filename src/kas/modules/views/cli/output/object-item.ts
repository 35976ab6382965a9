import { parseKindKey } from '../../../../../kubernetes/kind.ts'
import type { ArgoWord, Cause, EventRow, Row } from '../../../../../proto/views-json.ts'
import { nextText, undoText } from '../cause-text.ts'
import { isBundle, isGroup, isPlaceholder, verdictOf } from '../shown-view.ts'
import { reasonOf } from '../verdict-text.ts'
import { timeOf } from './time.ts'
import type { Culprit, EventItem, ObjectItem, ObjectLink, Verdict, VerdictCounts } from './views-output-kinds.ts'

/** Converts rows and events of the wire to the output for programs. */

/** @param now - in ms since 1970, by the agent's clock */
export function objectItem(row: Row, now: number): ObjectItem {
  const { u: id, ns, n, t, g, f = [], w, p, h, l, a, z } = row
  const type = typeOf(row)
  return {
    id,
    type,
    ...kindOf(row.k),
    namespace: filled(ns),
    name: filled(n),
    uid: type === 'object' ? id : undefined,
    created: timeOf(t),
    generation: g,
    verdict: verdictWord(verdictOf(row)),
    reason: filled(z?.reason),
    message: filled(z?.text) ?? filled(reasonOf(row)),
    culprit: z && culprit(z),
    otherCauses: z?.others,
    since: timeOf(z?.since),
    sinceAtLeast: timeOf(z?.since) === undefined ? undefined : z?.atLeast === true,
    lastSeen: timeOf(z?.last),
    next: filled(nextText(row)),
    undo: filled(undoText(row, now)),
    facts: f,
    children: row.c,
    unlisted: row.c,
    worstBelow: verdictWord(w),
    parent: p,
    argo: verdictWord(h?.[0]),
    kstatus: h?.[1],
    links: l?.map(link),
    asideKinds: a,
  }
}

export function eventItem({ u: id, ns, about, type, reason, text, count, at }: EventRow): EventItem {
  const [kind, name, uid] = about
  const object = { ...kindOf(kind), namespace: filled(ns), name, uid: filled(uid) }
  return { id, namespace: ns, object, type, reason, message: text, count, lastSeen: timeOf(at) }
}

/** Splits `group/Kind`; the core group is absent. */
export function kindOf(key: string): { readonly kind: string; readonly group?: string | undefined } {
  const { group, kind } = parseKindKey(key)
  return { kind, group: filled(group) }
}

export function verdictWord(word: ArgoWord | undefined): Verdict | undefined {
  return word === '' ? undefined : word
}

export function verdictCounts(counts: Readonly<Partial<Record<ArgoWord, number>>>): VerdictCounts {
  const { '': none, Healthy, Suspended, Progressing, Missing, Degraded, Unknown } = counts
  return {
    healthy: Healthy,
    suspended: Suspended,
    progressing: Progressing,
    missing: Missing,
    degraded: Degraded,
    unknown: Unknown,
    none,
  }
}

function typeOf(row: Row): ObjectItem['type'] {
  if (isGroup(row)) return 'group'
  if (isBundle(row)) return 'bundle'
  return isPlaceholder(row) ? 'owner' : 'object'
}

function culprit({ kind, namespace, name, id, count = 1 }: Cause): Culprit {
  return { ...kindOf(kind), namespace: filled(namespace), name, uid: filled(id), count }
}

function link([relation, id, kind, namespace, name]: NonNullable<Row['l']>[number]): ObjectLink {
  return { relation, ...kindOf(kind), namespace: filled(namespace), name, uid: filled(id) }
}

/** The wire has an empty text for an absent one. */
const filled = (text: string | undefined) => (text === '' ? undefined : text)
