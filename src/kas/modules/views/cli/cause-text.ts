import { printable } from '../../../../lib/printable.ts'
import { type Cause, notReconciled, type Row } from '../../../../proto/views-json.ts'
import { ageText } from '../../../command/age-text.ts'
import { commandLines, folded, joined } from './lines.ts'
import { isBare } from './received.ts'
import { verdictOf } from './shown-view.ts'
import { kindText, type Layout } from './verdict-text.ts'

/**
 * Returns the culprit: `2 Pods, e.g. web-x7k2p`; `Node worker-9 (2 Pods)`; empty if it is the row itself and nothing
 * else fails.
 */
export function culpritText({ z, k, n, ns = '' }: Row): string {
  if (!z) return ''
  const { kind, name, namespace, count = 1 } = z
  const place = printable(`${namespace === '' || namespace === ns ? '' : `${namespace}/`}${name}`)
  if (count > 1 && kind === 'Pod') return `${count} Pods, e.g. ${place}`
  const isSelf = kind === k && name === n && namespace === ns
  const named = `${printable(kindText(kind))} ${place}`
  if (count > 1) return `${named} (${failingText(z)})`
  return isSelf ? '' : named
}

/** Kinds whose Pods fail, and kinds whose Pods are missing. */
const failPods: ReadonlySet<string> = new Set(['Pod', 'Node', 'PersistentVolumeClaim'])
const lackPods =
  /^(?:apps\/(?:ReplicaSet|StatefulSet|DaemonSet)|batch\/Job|admissionregistration\.k8s\.io\/\w+WebhookConfiguration)$/

function failingText({ kind, count = 1 }: Cause): string {
  if (failPods.has(kind)) return `${count} Pods`
  return lackPods.test(kind) ? `${count} Pods missing` : `affects ${count}`
}

/** Texts that are shown beside a cause. */
export interface CauseBeside {
  /** begin of the cause, if the row has no room for it */
  readonly since?: string
  /** other causes in rows below */
  readonly others?: readonly Cause[]
  /** a row above with the same cause: `StatefulSet/db` */
  readonly same?: { readonly name: string; readonly cause: Cause }
}

/**
 * Returns lines with the cause and the next step:
 *
 * ```
 * 2 Pods, e.g. web-x7k2p: OOMKilled: container app: exit code 137, 4 restarts in all, last seen 40s ago
 * next: kubectl -n shop logs web-x7k2p -c app --previous
 * and 1 other cause: PersistentVolumeClaim data: NotBound
 * ```
 *
 * @returns lines, none of which is wider than the terminal
 */
export function causeLines(
  row: Row,
  { now, columns, paint }: Layout,
  indent: string,
  beside: CauseBeside = {},
): string[] {
  const { z } = row
  if (!z) return []
  const { since = '', others = [], same } = beside
  const last = z.last === undefined ? '' : joined(`last seen ${ageText(z.last, now)} ago`)
  const whole = [[culpritText(row), printable(z.reason), printable(textOf(z))].filter(Boolean).join(': '), last]
  const text = [...(same ? [sameText(z, same)] : whole), joined(since)].filter(Boolean).join(', ')
  const ends = [
    ...(same ? [] : commandLines('next:', printable(nextText(row)), columns, indent)),
    ...commandLines('or undo:', undoText(row, now), columns, indent),
    ...folded(othersText(row, others), columns, indent),
  ]
  return [...folded(text, columns, indent), ...ends.map((line) => paint.faint(line))]
}

/** Returns a key that is equal for causes with the same text. */
export function causeKey({ kind, namespace, name, reason, text, next }: Cause): string {
  if (reason === notReconciled) return reason
  return JSON.stringify([kind, namespace, name, reason, text, next])
}

/** Returns a key that is equal for causes of one culprit: Pods that fail in the same way are one. */
export function culpritKey({ kind, namespace, name, reason }: Cause): string {
  if (reason === notReconciled) return reason
  return JSON.stringify(kind === 'Pod' ? [kind, namespace, reason] : [kind, namespace, name])
}

function sameText(z: Cause, { name, cause }: NonNullable<CauseBeside['same']>): string {
  const { count = 1 } = z
  const isAsMany = count === (cause.count ?? 1) || count === 1
  return `same cause as ${name}${isAsMany ? '' : ` (${failingText(z)})`}`
}

/** Returns the next command, quoted for shells that interpret braces. Empty: there is none. */
export function nextText({ z }: Row): string {
  return z?.next.replace(/ jsonpath=(\{[^ ]*\})$/, " jsonpath='$1'") ?? ''
}

/** Kinds that kubectl can roll back. */
const rolled: Readonly<Record<string, string>> = {
  'apps/Deployment': 'deployment',
  'apps/StatefulSet': 'statefulset',
  'apps/DaemonSet': 'daemonset',
}

/** Time before an undo is offered while the object may still become healthy, in ms. */
const patienceMs = 60_000

/**
 * Returns the command that undoes a rollout. It is the only command that changes something, so it is made here from the
 * row's own name, never taken from an agent.
 */
export function undoText(row: Row, now: number): string {
  const { z, k, n, ns = '' } = row
  const kind = rolled[k]
  if (!z?.undo || kind === undefined || !isBare(ns) || !isBare(n)) return ''
  if (verdictOf(row) === 'Progressing' && now - (z.since ?? now) < patienceMs) return ''
  return `kubectl -n ${ns} rollout undo ${kind}/${n}`
}

/** Returns the text without the parts that are shown beside it: the reason, the culprit's name, and the final point. */
function textOf({ reason, text, kind, name }: Cause): string {
  const names = [`${kindText(kind).toLowerCase()} ${name}: `, `${name}: `]
  const begins = names.find((one) => text.startsWith(one)) ?? ''
  const bare = text.slice(begins.length).replace(` (${reason})`, '').replace(/\.+$/, '')
  return bare === reason ? '' : bare
}

/**
 * Returns the number of other causes. They are named if no more are known than counted: a cause below may not count.
 */
function othersText({ z, ns = '' }: Row, causes: readonly Cause[]): string {
  const { others = 0 } = z ?? {}
  if (others === 0) return ''
  const named = causes.map(({ kind, namespace, name, reason }) => {
    const place = namespace === '' || namespace === ns ? '' : `${namespace}/`
    return printable(`${kindText(kind)} ${place}${name}: ${reason}`)
  })
  const isKnown = named.length > 0 && named.length <= others
  const names = isKnown ? `: ${named.join(', ')}${named.length < others ? ', …' : ''}` : ''
  return `and ${others} other ${others === 1 ? 'cause' : 'causes'}${names}`
}
