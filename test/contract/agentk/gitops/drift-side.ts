import type { ApiLane } from '../../../../src/agentk/cluster/background-requests.ts'
import { metadataOnly } from '../../../../src/agentk/cluster/object-list.ts'
import { Scalers } from '../../../../src/agentk/modules/gitops/apply/scalers.ts'
import type { CompareOptions } from '../../../../src/agentk/modules/gitops/drift/compare-answers.ts'
import { type DryRunComparison, explain } from '../../../../src/agentk/modules/gitops/drift/explain.ts'
import type { Difference } from '../../../../src/agentk/modules/gitops/drift/shown-difference.ts'
import {
  type Baseline,
  baselineOf,
  type Reference,
  type Suspicion,
  suspicion,
} from '../../../../src/agentk/modules/gitops/drift/suspect.ts'
import { entriesOf, fieldsHash, ownEntry } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { inventoryLabel, ownerAnnotation } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { textAt } from '../../../../src/kubernetes/object.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { eventually } from '../../../support/eventually.ts'
import { configMap, deployment, type Ground, keyOf } from './ground.ts'

/** A source that applies objects to a real API server, and compares them with it. */

export const id = '42-7'
export const manager = `agentk-${id}`
const digest = 'd1'

/** True for managers that the default of `added_by` matches. */
const isAdder = (name: string) => /^(?:kubectl.*|k9s|node-fetch|Mozilla)$/.test(name)
const patchTypes = { json: 'json-patch', merge: 'merge-patch', strategic: 'strategic-merge-patch' } as const

/** Object that a source has applied. */
export interface AppliedObject {
  readonly key: ObjectKey
  /** as apply sends it */
  readonly object: ObjectTree
  readonly reference: Reference
  readonly baseline: Baseline
}

export class DriftSide {
  readonly ground: Ground
  /** lane of the source */
  lane: ApiLane
  options: CompareOptions = { manager, isAdder, ignoredBy: () => undefined }

  constructor(ground: Ground) {
    this.ground = ground
    this.lane = ground.lanes.lane('scan')
  }

  /** Applies an object with the source's marks. */
  async apply(key: ObjectKey, object: ObjectTree): Promise<AppliedObject> {
    const { labels, annotations, ...metadata } = object.metadata as Record<string, object>
    const marks = {
      labels: { ...labels, [inventoryLabel]: id },
      annotations: { ...annotations, [ownerAnnotation]: id, 'agent.gitlab.com/digest': digest },
    }
    const marked = { ...object, metadata: { ...metadata, ...marks } }
    await this.ground.apply(key, marked, manager)
    return { key, object: marked, ...(await this.#facts(key)) }
  }

  /** @param parts - of the Deployment: see `full` */
  async applyDeployment(name: string, parts?: Parameters<typeof full>[1]): Promise<AppliedObject> {
    return await this.apply(keyOf('Deployment', name, 'shop', 'apps'), full(name, parts))
  }

  async applyMap(name: string, data: Record<string, string> = { a: '1', b: '2' }, metadata = {}) {
    return await this.apply(keyOf('ConfigMap', name), configMap(name, data, metadata))
  }

  /** Changes an object as `kubectl edit` does. */
  async edit(key: ObjectKey, body: unknown, by = 'kubectl-edit'): Promise<void> {
    await this.patch(key, 'strategic', by, body)
  }

  async #facts(key: ObjectKey): Promise<Pick<AppliedObject, 'reference' | 'baseline'>> {
    const live = await this.ground.get(key)
    const own = ownEntry(entriesOf(live), manager)
    if (!own) throw new Error(`${key.name} has no entry of ${manager}`)
    const { uid, generation = 0 } = live.metadata
    const fields = fieldsHash(own.fieldsV1)
    const reference = { uid, owner: id, digest, fields, time: textAt(own, 'time'), generation }
    return { reference, baseline: baselineOf(live, manager) }
  }

  /** Patches an object. @param query - in addition: `&force=true` */
  async patch(key: ObjectKey, type: keyof typeof patchTypes, by: string, body: unknown): Promise<void> {
    const contentType = `application/${patchTypes[type]}+json`
    await this.#send('PATCH', `${this.ground.path(key)}?fieldManager=${by}`, body, contentType)
  }

  /** Reads an object, changes it and puts it. */
  // biome-ignore lint/suspicious/noExplicitAny: the shape is the API server's
  async put(key: ObjectKey, by: string, change: (object: any) => void): Promise<void> {
    const object = await this.ground.get(key)
    change(object)
    await this.#send('PUT', `${this.ground.path(key)}?fieldManager=${by}`, object)
  }

  async delete(key: ObjectKey): Promise<void> {
    await this.#send('DELETE', this.ground.path(key))
  }

  async #send(method: string, path: string, body?: unknown, contentType = 'application/json'): Promise<void> {
    const answer = await this.ground.client.json(method, path, body, undefined, { contentType })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
  }

  /** Judges the present metadata, as a watch of metadata sends them. @param isKnown - the first ones were judged */
  async judge({ key, reference, baseline }: AppliedObject, isKnown = true): Promise<Suspicion> {
    const { status, body } = await this.ground.client.json('GET', this.ground.path(key), undefined, undefined, {
      accept: metadataOnly.object,
    })
    const found = status === 404 ? undefined : (body as ObjectTree)
    return suspicion(reference, found, { manager, isAdder, baseline: isKnown ? baseline : undefined })
  }

  /** @returns the reasons; empty: `no`, `unchanged`; another kind as it is */
  async reasons(applied: AppliedObject, isKnown = true): Promise<string | readonly string[]> {
    const found = await this.judge(applied, isKnown)
    if (found.kind === 'suspect') return found.reasons
    return found.kind === 'no' || found.kind === 'unchanged' ? [] : found.kind
  }

  async explain({ key, object, reference }: AppliedObject): Promise<DryRunComparison> {
    const { kinds } = this.ground
    const kind = kinds.find(key)
    if (!kind) throw new Error(`nobody serves ${key.kind}`)
    const scalers = new Scalers({ lane: this.lane, ownLane: this.lane, kinds, manifests: [] })
    const { signal } = new AbortController()
    const dryLane: ApiLane = {
      json: (method, path, ...rest) => this.lane.json(method, `${path}&dryRun=All`, ...rest),
    }
    const components = { lane: this.lane, dryLane, scalers, clock: systemClock }
    const found = await explain(components, { key, kind, object, reference }, this.options, signal)
    if (!('live' in found)) return found
    const { live: _, ...shown } = found // its values are no part of the result
    return shown as DryRunComparison
  }

  /** @returns differences of a drifted object: `changed .data.a "1" -> "9" by kubectl`. Another kind: alone */
  async drift(applied: AppliedObject): Promise<readonly string[]> {
    const found = await this.explain(applied)
    if (found.kind === 'notComparable') return [`${found.kind}: ${found.problem.kind}: ${found.problem.text}`]
    if (found.kind === 'beingDeleted') return [found.kind]
    const all = found.differences.listed.map(differenceText)
    return found.kind === 'drifted' ? all : [found.kind, ...all]
  }

  /** Returns the API server's time, in whole seconds as in managedFields. */
  async serverTime(): Promise<string> {
    const path = '/api/v1/namespaces/shop/configmaps?dryRun=All&fieldManager=clock'
    const { body } = await this.ground.client.json('POST', path, configMap('clock', { a: 'b' }))
    return textAt(entriesOf(body)[0], 'time')
  }

  /** Waits for a second of the API server in which nothing was written yet. */
  async nextSecond(): Promise<string> {
    const before = await this.serverTime()
    return await eventually(async () => {
      const now = await this.serverTime()
      return now > before && now
    })
  }
}

export function differenceText({ kind, path, before, after, by }: Difference): string {
  const manager = by === 'unknown' ? by : `${by.manager}${by.subresource && `/${by.subresource}`}`
  return `${kind} ${path || 'all'} ${before ?? '-'} -> ${after ?? '-'} by ${manager}`
}

/** A Deployment whose values are not spelt as the API server stores them. */
export const full = (name: string, { spec = {}, container = {}, pod = {} } = {}): ObjectTree => {
  const [env, ports] = [['A', 'B'].map((one) => ({ name: one, value: one })), [{ containerPort: 80 }]]
  const resources = { limits: { cpu: '1000m', memory: '0.5Gi' } }
  const containers = [{ name: 'web', image: 'nginx:1', args: ['a', 'b'], env, ports, resources, ...container }]
  const metadata = { labels: { app: name } }
  return deployment(
    name,
    { replicas: 2, template: { metadata, spec: { containers, ...pod } }, ...spec },
    { labels: { team: 'a' } },
  )
}
