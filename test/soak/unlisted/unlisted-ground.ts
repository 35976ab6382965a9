import { readFile } from 'node:fs/promises'
import type { Test } from 'tap'
import type { ApiClient } from '../../../dev/control-plane/api-client.ts'
import { ControlPlane } from '../../../dev/control-plane/control-plane.ts'
import type { Update } from '../../../src/proto/views-json.ts'
import { AggregatedApi } from '../../support/aggregated-api.ts'
import { Store } from '../../support/control-plane/store.ts'
import { eventually } from '../../support/eventually.ts'
import { httpsGet } from '../../support/https-get.ts'
import { runKas } from '../../support/kas-command.ts'
import { Processes } from '../../support/processes.ts'
import { Stack } from '../../support/stack.ts'
import { bearerOf } from '../../support/stack-directory.ts'

/** Limit of a step: other load runs beside it, and the test measures lateness itself. ms */
export const patienceMs = 300_000

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const stone = '/registry/p3.example.com/stones/default/bad'
const webhook = {
  conversionReviewVersions: ['v1'],
  clientConfig: { service: { namespace: 'default', name: 'queue-operator' } },
}
/** A cluster with agentk and kas as processes, and three kinds that can be made impossible to list. */
export class UnlistedGround {
  readonly #admin: ApiClient
  readonly #store: Store
  readonly #stack: Stack
  readonly #gadgets: AggregatedApi
  readonly #ca: string

  private constructor(admin: ApiClient, store: Store, stack: Stack, gadgets: AggregatedApi, ca: string) {
    this.#admin = admin
    this.#store = store
    this.#stack = stack
    this.#gadgets = gadgets
    this.#ca = ca
  }

  static async start(t: Test): Promise<UnlistedGround> {
    const processes = await Processes.start(t)
    const controlPlane = new ControlPlane({ assets: process.env.KUBEBUILDER_ASSETS ?? '', parts: 'api' })
    t.teardown(() => controlPlane.stop())
    await controlPlane.start()
    const { admin } = controlPlane
    await makeObjects(admin)
    const gadgets = await AggregatedApi.start(t, admin, 'api.example.net')
    await eventually(() => gadgets.isAvailable(), { timeoutMs: patienceMs })
    const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
    await stack.repository.push('.gitlab/agents/prod/views.yaml', 'follow: {}\n')
    const ca = await readFile(stack.caFile, 'utf8')
    return new UnlistedGround(admin, new Store(controlPlane.folder), stack, gadgets, ca)
  }

  async startAgentk(): Promise<void> {
    await this.#stack.startAgentk()
    await this.#stack.connected()
  }

  /**
   * Breaks all three: the webhook has no Service, a stored object cannot be decoded, and the aggregated API answers so.
   */
  async breakAll(answers: 'never' | number): Promise<void> {
    await this.#store.put(stone, 'no JSON')
    this.#gadgets.answers = answers
    await this.#patch({ conversion: { strategy: 'Webhook', webhook } })
    for (const path of ['p1.example.com/v2/queues', 'p3.example.com/v1/stones'])
      await eventually(async () => (await this.#admin.request(`/apis/${path}`)).status >= 429, {
        timeoutMs: patienceMs,
      })
    await eventually(async () => !(await this.#gadgets.isAvailable()), { timeoutMs: patienceMs })
  }

  async mendAll(): Promise<void> {
    this.#gadgets.answers = 'well'
    await this.#store.delete(stone)
    await this.#patch({ conversion: { strategy: 'None', webhook: null } })
  }

  kas(argv: string) {
    return runKas(argv.split(' '), this.#stack.kubeconfig('agent'))
  }

  async aside(): Promise<NonNullable<NonNullable<Update['state']>['aside']>> {
    return (await this.#views('view=list&kind=Namespace')).state?.aside ?? []
  }

  row(kind: string, name: string) {
    const query = `view=list&kind=${encodeURIComponent(kind)}&limit=500`
    return async () => (await this.#views(query)).rows?.find(({ n }) => n === name)
  }

  async #views(query: string): Promise<Update> {
    const url = `${this.#stack.kubernetesUrl}/views?${query}`
    const { status, body } = await httpsGet(url, { ca: this.#ca, token: bearerOf('agent') })
    if (status !== 200) throw new Error(`${status} ${body}`)
    return JSON.parse(body) as Update
  }

  async #patch(spec: object): Promise<void> {
    const options = { method: 'PATCH', contentType: 'application/merge-patch+json', body: { spec } }
    const { status, body } = await this.#admin.request(`${definitions}/queues.p1.example.com`, options)
    if (status !== 200) throw new Error(`${status} ${body}`)
  }
}

async function makeObjects(admin: ApiClient): Promise<void> {
  const of = (group: string, plural: string, kind: string, versions: readonly string[]) =>
    admin.create(definitions, {
      metadata: { name: `${plural}.${group}` },
      spec: {
        group,
        scope: 'Namespaced',
        names: { plural, kind, singular: kind.toLowerCase() },
        versions: versions.map((name) => ({
          name,
          served: true,
          storage: name === 'v1',
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        })),
      },
    })
  await of('p1.example.com', 'queues', 'Queue', ['v2', 'v1'])
  await of('p3.example.com', 'stones', 'Stone', ['v1'])
  await of('example.com', 'fleets', 'Fleet', ['v1'])
  await of('example.com', 'saids', 'Said', ['v1'])
  const make = (group: string, plural: string, kind: string, name: string, more: object = {}) =>
    eventually(
      () =>
        admin.create(`/apis/${group}/v1/namespaces/default/${plural}`, {
          apiVersion: `${group}/v1`,
          kind,
          metadata: { name, ...more },
          ...(kind === 'Said' ? { status: { conditions: [{ type: 'Ready', status: 'True' }] } } : {}),
        }),
      { timeoutMs: patienceMs },
    )
  const { metadata } = (await make('example.com', 'fleets', 'Fleet', 'f')) as { metadata: { uid: string } }
  const owner = { apiVersion: 'example.com/v1', kind: 'Fleet', name: 'f', uid: metadata.uid }
  await make('p1.example.com', 'queues', 'Queue', 'first', { ownerReferences: [owner] })
  await make('p3.example.com', 'stones', 'Stone', 'good')
  await make('example.com', 'saids', 'Said', 's')
  await admin.create('/api/v1/namespaces', { metadata: { name: 'other' } })
  const labels = { app: 'web' }
  const deployments = '/apis/apps/v1/namespaces/other/deployments'
  await admin.create(deployments, {
    metadata: { name: 'web' },
    spec: {
      replicas: 0,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'main', image: 'none' }] } },
    },
  })
  const body = { status: { observedGeneration: 1, conditions: [{ type: 'Available', status: 'True' }] } }
  await admin.request(`${deployments}/web/status`, {
    method: 'PATCH',
    contentType: 'application/merge-patch+json',
    body,
  })
}
