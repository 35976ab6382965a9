import { printable } from '../../../lib/printable.ts'
import type { Cause, Row } from '../../../proto/views-json.ts'
import { folded } from './lines.ts'
import { isBare } from './received.ts'
import { ageText, kindText, type Layout } from './verdict-text.ts'

/**
 * `2 Pods, e.g. web-x7k2p`; `Node worker-9 (affects 2)`; nothing, if it is the row itself
 * and nothing else fails.
 */
export function culpritText({ z, k, n, ns = '' }: Row): string {
  if (!z) return ''
  const { kind, name, namespace, count = 1 } = z
  const place = printable(`${namespace === '' || namespace === ns ? '' : `${namespace}/`}${name}`)
  if (count > 1 && kind === 'Pod') return `${count} Pods, e.g. ${place}`
  const isSelf = kind === k && name === n && namespace === ns
  const named = `${printable(kindText(kind))} ${place}`
  if (count > 1) return `${named} (affects ${count})`
  return isSelf ? '' : named
}

/**
 * Why it is not well, and what to read next:
 *
 * ```
 * 2 Pods, e.g. web-x7k2p: OOMKilled: container app: exit code 137, 4 restarts in all, limit 64Mi, last 40s ago
 * next: kubectl -n shop logs web-x7k2p -c app --previous        (and 1 other cause)
 * ```
 *
 * @returns lines, none of which is wider than the terminal
 */
export function causeLines(row: Row, { now, columns, paint }: Layout, indent: string): string[] {
  const { z } = row
  if (!z) return []
  const last = z.last === undefined ? '' : `, last ${ageText(z.last, now)} ago`
  const said = [culpritText(row), printable(z.reason), printable(textOf(z))].filter(Boolean).join(': ') + last
  const next = z.next === '' ? '' : `next: ${printable(z.next)}`
  const end = [next, othersText(z)].filter(Boolean).join('        ')
  const ends = [end, undoText(row)].flatMap((one) => folded(one, columns, indent))
  return [...folded(said, columns, indent), ...ends.map((line) => paint.faint(line))]
}

/** Kinds that kubectl can roll back. */
const rolled: Readonly<Record<string, string>> = {
  'apps/Deployment': 'deployment',
  'apps/StatefulSet': 'statefulset',
  'apps/DaemonSet': 'daemonset',
}

/** The one command that changes something is made here, of the row's own name: none is taken from an agent. */
function undoText({ z, k, n, ns = '' }: Row): string {
  const kind = rolled[k]
  if (!z?.undo || kind === undefined || !isBare(ns) || !isBare(n)) return ''
  return `or undo: kubectl -n ${ns} rollout undo ${kind}/${n}`
}

/** Without what stands beside it: the reason, the culprit's name, and the point at its end. */
function textOf({ reason, text, kind, name }: Cause): string {
  const names = [`${kindText(kind).toLowerCase()} ${name}: `, `${name}: `]
  const begins = names.find((one) => text.startsWith(one)) ?? ''
  const bare = text.slice(begins.length).replace(` (${reason})`, '').replace(/\.+$/, '')
  return bare === reason ? '' : bare
}

function othersText({ others = 0 }: Cause): string {
  return others === 0 ? '' : `(and ${others} other ${others === 1 ? 'cause' : 'causes'})`
}
