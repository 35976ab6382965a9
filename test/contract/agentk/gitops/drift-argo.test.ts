import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ControlPlane } from '../../../../dev/control-plane/control-plane.ts'
import { Scalers } from '../../../../src/agentk/modules/gitops/apply/scalers.ts'
import { explain } from '../../../../src/agentk/modules/gitops/drift/explain.ts'
import { entriesOf } from '../../../../src/agentk/modules/gitops/live/managed-fields.ts'
import { type ManagedPath, pathText } from '../../../../src/agentk/modules/gitops/live/managed-path.ts'
import type { ObjectTree } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { normalObject } from '../../../../src/agentk/modules/gitops/manifests/normal-object.ts'
import { parseApiVersion } from '../../../../src/kubernetes/kind.ts'
import { textAt } from '../../../../src/kubernetes/object.ts'
import { objectPath, withQuery } from '../../../../src/kubernetes/path.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Mutation, startMutatingWebhook } from './mutating-webhook.ts'

/**
 * Argo CD's vectors of differences, with a real API server: the live object is made as the vector has it, and compared
 * with the object from Git. Some vectors cannot be made: an API server does not store such objects.
 */

/** Vectors that run, and agree. */
const agreeing: readonly string[] = [
  'DiffOptionIgnoreAggregateRoles/true',
  'ThreeWayDiffExample1',
  'ThreeWayDiffExample2',
  'ThreeWayDiffExample2WithDifference',
  'ThreeWayDiffExample3',
  'ThreeWayDiffExplicitNamespace',
  'NullRoleRule',
  'NullCreationTimestamp',
  'UnsortedEndpoints',
  'IgnoreNamespaceForClusterScopedResources',
  'SecretStringData',
  'DiffWithIgnoreDifferences/TwoWayDiff will respect ignoreDifferences for comparison but not output normalization',
  'DiffWithIgnoreDifferences/ThreeWayDiff will respect ignoreDifferences for comparison but not output normalization',
  'StructuredMergeDiff/will apply default values',
  'StructuredMergeDiff/will remove entries in list',
  'StructuredMergeDiff/will remove previously added fields not present in desired state',
  'StructuredMergeDiff/will apply service with multiple ports',
  'StructuredMergeDiff/will apply deployment defaults correctly',
  'StructuredMergeDiff_HPAv2ToV1Conversion',
  'StructuredMergeDiff_HPAv2ToV1Conversion_Modified',
  'ServerSideDiff/will ignore modifications done by mutation webhook by default',
  'ServerSideDiff/will include mutation webhook modifications',
  'ServerSideDiff/will respect ignoreDifferences when full normalization is not skipped',
  'ServerSideDiff/will test removing some field with undoing changes done by webhook',
  'ServerSideDiff/will include nested fields like ports and env',
  'ServerSideDiff/will add an extra container using kubectl apply and include mutation webhook',
  'ServerSideDiff/will reflect deletion of labels in predicted live',
  'ServerSideDiff/will preserve composite key fields during diff',
  'ServerSideDiff/will detect ConfigMap data key removal',
  'ServerSideDiffPreservesManagerOwnedFieldUnderWebhookMutation',
]

/** Vectors that run, and have another verdict, each with the option of Argo CD that agentk does not have. */
const byOption: Readonly<Record<string, string>> = {
  'DiffOptionIgnoreAggregateRoles/false':
    'ignoreAggregatedRoles: false. Rules of an aggregated ClusterRole are the cluster’s: agentk never compares them',
}

/** Vectors that cannot run on a real API server, each with the answer that prevents it. */
const unplayable: Readonly<Record<string, RegExp>> = {
  // values of v1beta1, which no version has that the API server serves
  ThreeWayDiffExample4: /^the live object is refused: .*webhooks\[0\]\.sideEffects: Unsupported value: "Unknown"/,
  // a number as a text: agentk refuses it when it reads the manifest
  InvalidSecretStringData: /^agentk refuses the manifest: stringData.* is no text/,
  // a field that is none: the object cannot be compared, which is not "in order" either
  DiffResourceWithInvalidField: /^it cannot be compared: .*\.invalidKey: field not declared in schema/,
  // a Deployment without a spec
  'ServerSideDiff/will not report diff for mismatched resourceVersion':
    /^the live object is refused: .*spec\.selector: Required value/,
}

interface Vector {
  readonly name: string
  readonly mode: 'client' | 'server' | 'structured-merge'
  readonly config: ObjectTree
  readonly live: ObjectTree | null
  readonly ignore?: readonly (readonly string[])[]
  readonly expect: { readonly modified: boolean }
  /** answer of the dry run, with the changes of a webhook */
  // biome-ignore lint/suspicious/noExplicitAny: any object of Kubernetes
  readonly predicted?: any
}

const file = join(process.env.KAS_VECTORS ?? '', 'argo-diff.json')
const noVectors = existsSync(file) ? false : 'needs KAS_VECTORS'
const ownManager = 'agentk-42-7'
const argoManager = 'argocd-controller'
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
/** fields that an API server sets, or that only one cluster has */
const ofServer = ['uid', 'resourceVersion', 'creationTimestamp', 'generation', 'managedFields', 'selfLink']
const { signal } = new AbortController()

/** Custom kinds of the vectors. */
const definitions = (
  [
    ['bitnami.com', 'v1alpha1', 'SealedSecret', 'Namespaced'],
    ['foo.io', 'v1', 'Foo', 'Cluster'],
    ['example.com', 'v1', 'Widget', 'Namespaced'],
  ] as const
).map(([group, version, kind, scope]) => {
  const [singular, plural] = [kind.toLowerCase(), `${kind.toLowerCase()}s`]
  const versions = widgetDefinition.spec.versions.map((one) => ({ ...one, name: version }))
  const spec = { ...widgetDefinition.spec, group, scope, names: { plural, kind, singular }, versions }
  return { ...widgetDefinition, metadata: { name: `${plural}.${group}` }, spec }
})

/** Returns an object that this API server can store: without its own fields, in versions that it serves. */
// biome-ignore lint/suspicious/noExplicitAny: any object of Kubernetes
function storable(object: any, namespace: string): any {
  const copy = structuredClone(object)
  for (const name of ofServer) delete copy.metadata[name]
  delete copy.status
  if (copy.kind === 'Service') {
    for (const name of ['clusterIP', 'clusterIPs']) delete copy.spec?.[name]
    for (const port of copy.spec?.ports ?? []) delete port.nodePort
  }
  copy.apiVersion = copy.apiVersion
    .replace(/^apps\/v1beta[12]$/, 'apps/v1')
    .replace('admissionregistration.k8s.io/v1beta1', 'admissionregistration.k8s.io/v1')
    .replace(/^autoscaling\/v2beta[12]$/, 'autoscaling/v2')
  for (const webhook of copy.kind?.endsWith('WebhookConfiguration') ? (copy.webhooks ?? []) : []) {
    webhook.sideEffects ??= 'None'
    webhook.admissionReviewVersions ??= ['v1']
  }
  if (namespace === '') delete copy.metadata.namespace
  else copy.metadata.namespace = namespace
  return copy
}

/** Returns the object as agentk reads it from Git. @throws Error with the problem of the manifest */
function fromGit(object: ObjectTree): ObjectTree {
  const normal = normalObject({ object, file: 'vector.yaml', line: 1 })
  if (typeof normal !== 'object') throw new Error(normal ?? 'it is no object')
  return JSON.parse(Buffer.from(normal.json).toString())
}

const messageOf = (body: unknown) => textAt(body, 'message').slice(0, 300)

class Vectors {
  readonly #t: Pick<Test, 'teardown'>
  readonly #ground: Ground
  #spaces = 0

  constructor(t: Pick<Test, 'teardown'>, ground: Ground) {
    this.#t = t
    this.#ground = ground
  }

  /** @returns true: it differs; or the reason for which the vector cannot be played */
  async play(vector: Vector): Promise<{ readonly differs: boolean; readonly found: string } | string> {
    const { config, live, mode, ignore = [] } = vector
    const { apiVersion, kind: name } = storable(config, '')
    const { group, version } = parseApiVersion(apiVersion)
    const kind = this.#ground.kinds.find({ group, kind: name }, version)
    if (!kind) return `nobody serves ${apiVersion} ${name}`
    const namespace = kind.isNamespaced ? `v-${++this.#spaces}` : ''
    if (kind.isNamespaced) {
      await this.#ground.create(keyOf('Namespace', namespace, ''), { metadata: { name: namespace } })
    }
    const fit = (object: ObjectTree) => storable(object, namespace)
    let object: ObjectTree
    try {
      object = fromGit(fit(config))
    } catch (error) {
      return `agentk refuses the manifest: ${(error as Error).message}`
    }
    const key = { group, kind: name as string, namespace, name: textAt(config, 'metadata.name') }
    const path = objectPath(kind, key)
    if (!kind.isNamespaced) await this.#send('DELETE', path)
    const manager = mode === 'client' ? ownManager : argoManager
    const refused = live && (await this.#make(path, { mode, live, fit, manager }))
    if (refused) return refused
    await this.#predict(vector, { group, resource: kind.plural, namespace, path, object })
    const ignored = ignore.map((names) => `.${names.join('.')}`)
    const ignoredBy = (at: ManagedPath) => (ignored.includes(pathText(at)) ? 'ignore' : undefined)
    const found = await this.#explain({ key, kind, object, reference: undefined }, manager, ignoredBy)
    if (found.kind === 'notComparable') return `it cannot be compared: ${found.problem.text}`
    if (found.kind === 'beingDeleted') return 'it is being deleted'
    const differences = found.differences.listed.map(({ kind: how, path: at }) => `${how} ${at}`)
    return { differs: found.kind !== 'inOrder', found: [found.kind, ...differences].join(', ') }
  }

  /** Makes the live object of a vector. @returns the refusal of the API server; undefined: it is there */
  async #make(
    path: string,
    {
      mode,
      live,
      fit,
      manager,
    }: Pick<Vector, 'mode'> & {
      readonly live: ObjectTree
      readonly fit: (object: ObjectTree) => ObjectTree
      readonly manager: string
    },
  ): Promise<string | undefined> {
    const annotations = (live.metadata as { annotations?: Record<string, string> }).annotations ?? {}
    const applied = annotations[lastApplied]
    if (mode === 'client' && applied !== undefined) {
      const query = { fieldManager: manager, force: true }
      const object = fromGit(fit(JSON.parse(applied)))
      const first = await this.#send('PATCH', withQuery(path, query), object, 'apply-patch+yaml')
      if (first.status > 201) return `its last configuration is refused: ${messageOf(first.body)}`
      return await this.#put(path, fit(live))
    }
    const collection = path.slice(0, path.lastIndexOf('/'))
    const made = await this.#send('POST', withQuery(collection, { fieldManager: 'others' }), fit(live))
    if (made.status > 201) return `the live object is refused: ${messageOf(made.body)}`
    const entries = entriesOf(live).map((entry) => ({ ...entry, fieldsType: 'FieldsV1' }))
    if (mode === 'client' || entries.length === 0) return undefined
    const patch = [{ op: 'replace', path: '/metadata/managedFields', value: entries }]
    const owned = await this.#send('PATCH', withQuery(path, { fieldManager: 'others' }), patch, 'json-patch+json')
    return owned.status === 200 ? undefined : `its owners are refused: ${messageOf(owned.body)}`
  }

  /** Starts the webhook that has made the vector's prediction, if it has one, and waits until the API server calls it. */
  async #predict(
    { predicted }: Vector,
    of: {
      readonly group: string
      readonly resource: string
      readonly namespace: string
      readonly path: string
      readonly object: ObjectTree
    },
  ): Promise<void> {
    if (!/-WEBHOOK|-by-webhook/.test(JSON.stringify(predicted ?? ''))) return
    const { labels } = predicted.metadata
    const { unrelated } = predicted.spec
    const mutate: Mutation = ({ metadata }) => [
      ...(metadata.namespace === of.namespace && labels
        ? [{ op: 'add', path: '/metadata/labels', value: labels } as const]
        : []),
      ...(metadata.namespace === of.namespace && unrelated
        ? [{ op: 'add', path: '/spec/unrelated', value: unrelated } as const]
        : []),
    ]
    const { group, resource, namespace: name } = of
    await startMutatingWebhook(this.#t, this.#ground, { name, group, resource, mutate })
    const probe = withQuery(of.path, { fieldManager: 'probe', force: true, dryRun: 'All' })
    await eventually(async () => {
      const { body } = await this.#send('PATCH', probe, of.object, 'apply-patch+yaml')
      return /-WEBHOOK|-by-webhook/.test(JSON.stringify(body))
    })
  }

  /** Puts the live object as another manager, in place of what was applied. */
  async #put(path: string, live: ObjectTree): Promise<string | undefined> {
    return await eventually(async () => {
      const { body } = await this.#send('GET', path)
      // biome-ignore lint/suspicious/noExplicitAny: any object of Kubernetes
      const [now, next] = [body as any, structuredClone(live) as any]
      if (now.kind === 'Service') {
        next.spec = { ...next.spec, clusterIP: now.spec.clusterIP, clusterIPs: now.spec.clusterIPs }
      }
      next.metadata.resourceVersion = now.metadata.resourceVersion
      next.metadata.managedFields = now.metadata.managedFields
      const put = await this.#send('PUT', withQuery(path, { fieldManager: 'others' }), next)
      if (put.status === 409) return false // somebody has written it meanwhile
      return put.status === 200 ? undefined : `the live object is refused: ${messageOf(put.body)}`
    })
  }

  #explain(
    request: Parameters<typeof explain>[1],
    manager: string,
    ignoredBy: Parameters<typeof explain>[2]['ignoredBy'],
  ) {
    const lane = this.#ground.lanes.lane('scan')
    const { kinds } = this.#ground
    const dryLane: typeof lane = { json: (method, path, ...rest) => lane.json(method, `${path}&dryRun=All`, ...rest) }
    const scalers = new Scalers({ lane, ownLane: lane, kinds, manifests: [] })
    return explain(
      { lane, dryLane, scalers, clock: systemClock },
      request,
      { manager, isAdder: () => false, ignoredBy },
      signal,
    )
  }

  #send(method: string, path: string, body?: unknown, type = 'json') {
    return this.#ground.client.json(method, path, body, undefined, { contentType: `application/${type}` })
  }
}

t.test('Argo CD’s vectors of differences', { skip: skip || noVectors, timeout: 180_000 }, async (t) => {
  const vectors: readonly Vector[] = JSON.parse(readFileSync(file, 'utf8'))
  // as most clusters are started: two vectors have a Pod with privileges
  const flags = ['--allow-privileged=true']
  const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api', flags })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const ground = await Ground.start(t, controlPlane)
  for (const definition of definitions) {
    const { name } = definition.metadata
    await ground.create(keyOf('CustomResourceDefinition', name, '', 'apiextensions.k8s.io'), definition)
  }
  await eventually(async () => {
    await ground.readKinds()
    return definitions.every(({ spec: { group, names } }) => ground.kinds.find({ group, kind: names.kind }))
  })
  const played = new Vectors(t, ground)
  const [agree, differ, cannot]: [string[], string[], Record<string, string>] = [[], [], {}]
  for (const vector of vectors) {
    const name = vector.name.replace('argo-diff/', '')
    const result = await played.play(vector)
    if (typeof result === 'string') cannot[name] = result
    else if (result.differs === vector.expect.modified) agree.push(name)
    else {
      differ.push(name)
      t.comment(`${name}: ${result.found}`)
    }
  }
  const counts = [agree.length, differ.length, Object.keys(cannot).length]
  t.comment(`${vectors.length} vectors: ${counts[0]} agree, ${counts[1]} by an option, ${counts[2]} cannot run`)
  t.strictSame(agree.sort(), agreeing.toSorted(), 'those that agree')
  t.strictSame(differ.sort(), Object.keys(byOption).sort(), 'those with an option of Argo CD')
  t.strictSame(Object.keys(cannot).sort(), Object.keys(unplayable).sort(), 'those that cannot run')
  for (const [name, reason] of Object.entries(unplayable)) t.match(cannot[name], reason, name)
})
