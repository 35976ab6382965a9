import { execFile } from 'node:child_process'
import { join } from 'node:path'
import {
  digestAnnotation,
  inventoryLabel,
  ownerAnnotation,
} from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { type KubernetesObject, kindOf, listAt, nameOf } from '../../../../src/kubernetes/object.ts'
import { collectionPath } from '../../../../src/kubernetes/path.ts'
import type { Ground } from './ground.ts'
import { Pod } from './pod.ts'

/** Applies the same manifests by `kubectl apply --server-side` and by a source, each in a namespace of its own. */
export class KubectlReference {
  readonly #ground: Ground
  readonly #pod: Pod
  readonly #name: string

  /** @param name - name of the pair; the namespaces are `NAME-kubectl` and `NAME-agentk` */
  constructor(ground: Ground, name: string, projectId: bigint) {
    this.#ground = ground
    this.#name = name
    this.#pod = new Pod(ground, { projectId, block: { default_namespace: `${name}-agentk`, prune_limit: '100%' } })
  }

  async start(): Promise<void> {
    for (const by of ['kubectl', 'agentk']) {
      const name = `${this.#name}-${by}`
      await this.#ground.create({ group: '', kind: 'Namespace', namespace: '', name }, { metadata: { name } })
    }
  }

  /** @returns names of the manifests that kubectl (`refused`) and the source (`failed`) could not apply */
  async apply(manifests: readonly ObjectTree[]) {
    const docs = manifests.map((manifest) => JSON.stringify(manifest)).join('\n---\n')
    const errors = await this.#kubectl(docs)
    const all = manifests.map((manifest) => nameOf(manifest))
    const refused = all.filter((name) => errors.some((line) => new RegExp(`["/]${name}[";]`).test(line)))
    const { ends } = await this.#pod.bring({ 'all.yaml': docs })
    const failed = Object.entries(ends).flatMap(([name, { kind }]) => (kind === 'failed' ? [name] : []))
    return { refused: refused.sort(), failed: failed.sort() }
  }

  /**
   * Returns objects of these manifests' kinds as one manager has applied them, without parts that depend on the
   * namespace.
   *
   * @returns objects by `Kind name`
   */
  async applied(by: 'kubectl' | 'agentk', manifests: readonly ObjectTree[]) {
    const namespace = `${this.#name}-${by}`
    const manager = by === 'kubectl' ? 'kubectl' : this.#pod.options.manager
    const all = new Map<string, { object: unknown; fields: unknown }>()
    for (const text of new Set(manifests.map(kindOf))) {
      const [kind = '', group = ''] = text.split('/').toReversed()
      const served = this.#ground.kinds.find({ group, kind })
      if (!served) throw new Error(`nobody serves ${text}`)
      const { body } = await this.#ground.client.json('GET', collectionPath(served, namespace))
      for (const object of listAt(body, 'items')) {
        const entry = listAt(object, 'metadata.managedFields').find((one) => one.manager === manager)
        const fields = ownFields(entry?.fieldsV1 ?? {})
        const isSecret = kind === 'Secret'
        all.set(`${kind} ${nameOf(object)}`, { object: comparable(object, isSecret ? fields : undefined), fields })
      }
    }
    return all
  }

  /** @returns error lines of kubectl */
  #kubectl(input: string): Promise<readonly string[]> {
    const { kubeconfig } = this.#ground.controlPlane
    const program = join(process.env.KUBEBUILDER_ASSETS ?? '', 'kubectl')
    const args = ['apply', '--server-side', '--force-conflicts', '-n', `${this.#name}-kubectl`, '-f', '-']
    return new Promise((resolve) => {
      const child = execFile(
        program,
        ['--kubeconfig', kubeconfig, ...args],
        { maxBuffer: 64 * 1024 * 1024 },
        (_error, _stdout, stderr) => resolve(stderr.split('\n').filter(Boolean)),
      )
      child.stdin?.end(input)
    })
  }
}

const marks = [inventoryLabel, ownerAnnotation, digestAnnotation]
const unlike = ['uid', 'resourceVersion', 'creationTimestamp', 'namespace', 'managedFields', 'generation']

/**
 * Returns the object without agentk's marks, server-set fields, and the entries that kubectl leaves after `stringData`.
 */
function comparable({ metadata, spec, data, ...rest }: KubernetesObject, secret: Fields | undefined): unknown {
  const kept: Record<string, unknown> = Object.fromEntries(
    Object.entries(metadata as ObjectTree).filter(([key]) => !unlike.includes(key)),
  )
  for (const place of ['labels', 'annotations']) kept[place] = without(kept[place], marks)
  const left = Object.keys(data ?? {}).filter((name) => !Object.hasOwn(secret?.['f:data'] ?? {}, `f:${name}`))
  const own = secret ? without(data, left) : data
  return { ...rest, metadata: kept, spec: without(spec, ['clusterIP', 'clusterIPs']), data: own }
}

type Fields = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** Returns managed fields without agentk's marks. A Secret's `stringData` counts as `data`, as agentk writes it. */
function ownFields(fields: unknown): Fields {
  const { 'f:metadata': metadata = {}, 'f:stringData': text = {}, 'f:data': data, ...others } = fields as Fields
  const hasData = data !== undefined || Object.keys(text).length > 0
  const rest = { ...others, ...(hasData && { 'f:data': { ...data, ...text } }) }
  const kept = Object.fromEntries(
    Object.entries(metadata).flatMap(([name, fields]) => {
      const left = without(
        fields,
        marks.map((mark) => `f:${mark}`),
      ) as object
      return ['f:labels', 'f:annotations'].includes(name) && Object.keys(left).length === 0 ? [] : [[name, left]]
    }),
  )
  return { ...rest, 'f:metadata': kept }
}

function without(map: unknown, names: readonly string[]): unknown {
  if (typeof map !== 'object' || map === null) return map ?? {}
  return Object.fromEntries(Object.entries(map).filter(([name]) => !names.includes(name)))
}
