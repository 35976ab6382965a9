/** Keeps the content of a list of Pods, page by page, and the same list once more; then prints the cost. */

import { Interned } from '../../src/agentk/modules/views/store/interned.ts'
import { Records } from '../../src/agentk/modules/views/store/records.ts'
import { Rules } from '../../src/agentk/modules/views/store/rules.ts'
import type { KubernetesObject } from '../../src/kubernetes/object.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { type PodsOf, podsJson } from './pods.ts'

export type What = 'nothing' | 'records' | 'objects'
export interface KeepSettings {
  readonly what: What
  readonly of: PodsOf
  readonly objects: number
}

const pageSize = 500
const { what, of, objects } = JSON.parse(process.argv[2] as string) as KeepSettings
const pods = { key: 'Pod', group: '', version: 'v1', plural: 'pods', isNamespaced: true }
const records = new Records({ clock: systemClock, rules: new Rules([], []), interned: new Interned() })
const whole = new Map<string, KubernetesObject>()
let changes = 0
records.onChange(() => changes++)

/**
 * Measures the cost of keeping, without parsing. It counts CPU time with collections on other threads, since the
 * machine may be busy.
 */
function list(): { cpuMs: number; longestMs: number } {
  let [cpuMs, longestMs] = [0, 0]
  if (what === 'records') records.listing(pods, undefined)
  for (let from = 0; from < objects; from += pageSize) {
    const page = JSON.parse(podsJson(from, Math.min(pageSize, objects - from), of)) as KubernetesObject[]
    const [began, cpuBefore] = [performance.now(), process.cpuUsage()]
    if (what === 'records') for (const object of page) records.put(pods, object)
    if (what === 'objects') for (const [i, object] of page.entries()) whole.set(String(from + i), object)
    const { user, system } = process.cpuUsage(cpuBefore)
    cpuMs += (user + system) / 1000
    longestMs = Math.max(longestMs, performance.now() - began)
  }
  if (what === 'records') records.listed(pods, undefined)
  return { cpuMs, longestMs }
}

const [first, second] = [list(), list()]
const rssBefore = process.memoryUsage.rss()
globalThis.gc?.()
const { rss, heapUsed } = process.memoryUsage()
process.send?.({
  'first list, CPU us an object': (first.cpuMs * 1000) / objects,
  'list of equal objects, CPU us an object': (second.cpuMs * 1000) / objects,
  'longest page of 500, ms': Math.max(first.longestMs, second.longestMs),
  'RSS, MiB': rssBefore / 2 ** 20,
  'RSS after a collection, MiB': rss / 2 ** 20,
  'heap after a collection, MiB': heapUsed / 2 ** 20,
  'changes told': changes,
  kept: records.size + whole.size,
})
process.on('disconnect', () => process.exit())
