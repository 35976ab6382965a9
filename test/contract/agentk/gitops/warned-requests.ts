import { join } from 'node:path'
import type { KubernetesObject } from '../../../../dev/control-plane/api-client.ts'
import { inventoryLabel } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import type { ObjectKey } from '../../../../src/kubernetes/key.ts'
import { collectionPath } from '../../../../src/kubernetes/path.ts'
import { eventually } from '../../../support/eventually.ts'
import { manifestsFolder, readManifest } from '../../../support/manifests.ts'
import { type Ground, keyOf } from './ground.ts'

/** The shipped policy and its binding, for agent 42. */
export const shippedPolicy = (): KubernetesObject[] =>
  readManifest(join(manifestsFolder, 'agentk-gitops/2-warning.yaml'))

export interface Warned {
  readonly status: number
  /** warnings of our policies, in order: those of the API server itself, such as of a deprecated kind, are left out */
  readonly warnings: readonly string[]
  /** body of the answer */
  readonly text: string
}

export interface Asked {
  /** default: a person */
  readonly user?: string
  readonly contentType?: string
  readonly query?: string
}

/** A change of an object: a merge patch, or the method DELETE. */
export type Change = object | 'DELETE'

/** Sends requests as users that may do everything, and reads the warnings of the answers. */
export class WarnedRequests {
  readonly #ground: Ground

  constructor(ground: Ground) {
    this.#ground = ground
  }

  /** Creates an object of a source of agent 42, in the namespace `shop` if its kind has namespaces. */
  keep(object: ObjectTree, id = '42-7'): Promise<ObjectKey> {
    const { metadata } = object as KubernetesObject
    return this.create({ ...object, metadata: { ...metadata, labels: { ...metadata.labels, [inventoryLabel]: id } } })
  }

  /** Creates an object, in the namespace `shop` if its kind has namespaces. @throws Error if the API server refuses */
  async create(object: ObjectTree): Promise<ObjectKey> {
    const { apiVersion, kind, metadata } = object as KubernetesObject
    const [version = '', group = ''] = apiVersion.split('/').reverse()
    const served = this.#ground.kinds.find({ group, kind }, version)
    if (!served) throw new Error(`nobody serves ${kind} of ${apiVersion}`)
    const namespace = served.isNamespaced ? 'shop' : ''
    const body = { ...object, metadata: { ...metadata, ...(namespace && { namespace }) } }
    const { status, text } = await this.send('POST', collectionPath(served, namespace), body)
    if (status !== 201) throw new Error(`${kind} ${metadata.name}: ${status} ${text}`)
    return { group, kind, namespace, name: metadata.name }
  }

  /** Changes an object, once the API server's cache has its last change. @throws Error if the API server refuses */
  async change(key: ObjectKey, change: Change, { query = '', ...asked }: Asked = {}): Promise<readonly string[]> {
    const path = `${this.#ground.path(key)}${query}`
    await this.#cached(key)
    const contentType = 'application/merge-patch+json'
    const answer =
      change === 'DELETE'
        ? await this.send('DELETE', path, undefined, asked)
        : await this.send('PATCH', path, change, { contentType, ...asked })
    if (answer.status >= 300) throw new Error(`${key.kind} ${key.name}: ${answer.status} ${answer.text}`)
    return answer.warnings
  }

  /**
   * Waits until the API server's cache has the newest version of an object. It tries a change of the cached version
   * first, and keeps the warnings of a try that it has to repeat.
   */
  async #cached(key: ObjectKey): Promise<void> {
    const { metadata } = (await this.#ground.get(key)) ?? {}
    const path = `${this.#ground.path(key)}?resourceVersion=${metadata?.resourceVersion}`
    const { status, text } = await this.send('GET', path)
    if (status !== 200) throw new Error(`${path}: ${status} ${text}`)
  }

  send(method: string, path: string, body?: unknown, asked: Asked = {}): Promise<Warned> {
    const { user = 'ada', contentType = 'application/json' } = asked
    const identity = ['Impersonate-User', user, 'Impersonate-Group', 'system:masters']
    const headers = ['Accept', 'application/json', ...identity]
    if (body !== undefined) headers.push('Content-Type', contentType)
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = []
      let status = 0
      let warnings: readonly string[] = []
      this.#ground.client.send(
        { method, path, headers, ...(body !== undefined && { body: Buffer.from(JSON.stringify(body)) }) },
        {
          onHead: (code, _, rawHeaders) => {
            status = code
            warnings = warningsOf(rawHeaders.map(String))
          },
          onData: (chunk) => void chunks.push(chunk),
          onEnd: () => resolve({ status, warnings, text: Buffer.concat(chunks).toString() }),
          onError: reject,
        },
      )
    })
  }

  /** Creates policies and bindings, and waits until each warns of an object with its label. */
  async enforce(policies: readonly KubernetesObject[], ids: readonly string[] = ['42-7']): Promise<void> {
    for (const object of policies) await this.create(object as ObjectTree)
    for (const [i, id] of ids.entries()) {
      const key = await this.keep(configMapOf(`probe-${i}`), id)
      let tries = 0
      await eventually(async () => (await this.change(key, { data: { tries: String(++tries) } })).length > 0)
    }
  }
}

const configMapOf = (name: string): ObjectTree => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name } })

/** Creates the namespaces of sources and of their inventories. */
export async function createNamespaces(ground: Ground): Promise<void> {
  for (const name of ['shop', 'gitops', 'agentk']) {
    await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  }
}

const ofPolicy = /^Validation failed for ValidatingAdmissionPolicy 'agentk-kept-in-git/

/** @param headers - name, value, name, value. @returns texts without code, agent and quotes */
function warningsOf(headers: readonly string[]): string[] {
  return headers.flatMap((name, i) => {
    if (i % 2 === 1 || name.toLowerCase() !== 'warning') return []
    const [, text = ''] = /^299 - "(.*)"$/.exec(headers[i + 1] ?? '') ?? []
    return ofPolicy.test(text) ? [text.replaceAll(/\\(.)/g, '$1')] : []
  })
}
