import t, { type Test } from 'tap'
import { missingAssets } from '../../../../dev/control-plane/assets.ts'
import { pluralOf } from '../../../../dev/roles/views-role.ts'
import { vendorRules } from '../../../../src/agentk/health/custom/vendors.ts'
import { Warnings } from '../../../../src/agentk/modules/views/watch/events.ts'
import { Kinds } from '../../../../src/agentk/modules/views/watch/kinds.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { apiClient } from '../../../support/api-client.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { sharedControlPlane } from '../../../support/control-plane/shared-control-plane.ts'
import { eventually } from '../../../support/eventually.ts'
import { KeptSink } from '../../../support/kept-sink.ts'
import { readManifests } from '../../../support/manifests.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'

/** The role for kinds of vendors, on a real API server. With the role all these kinds are followed, without it none. */

const missing = missingAssets(process.env.KUBEBUILDER_ASSETS, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

const crds = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const rbac = '/apis/rbac.authorization.k8s.io/v1'

/** `group/Kind` of some kinds with rules: exact kinds, irregular names and whole groups. */
const vendorKinds = [
  'cert-manager.io/Certificate',
  'kafka.banzaicloud.io/KafkaCluster',
  'metrics.keptn.sh/Analysis',
  'numaflow.numaproj.io/MonoVertex',
  'policies.kyverno.io/NamespacedImageValidatingPolicy',
  'projectcontour.io/HTTPProxy',
  'rabbitmq.com/Queue',
  'serving.knative.dev/Service',
  'rollouts.kruise.io/Rollout',
]

t.test('the role for kinds of vendors', { skip, timeout: 120_000 }, async (t) => {
  const controlPlane = await sharedControlPlane(t, ['--disable-admission-plugins=ServiceAccount'])
  const { admin, server, caFile } = controlPlane
  for (const kind of [...vendorKinds, 's3.aws.upbound.io/Bucket']) await admin.create(crds, definitionOf(kind))
  const [role, ...ownRules] = ['agentk-views-vendors', 'agentk-views'].map((name) =>
    readManifests('agentk-views').find((one) => one.kind === 'ClusterRole' && one.metadata.name === name),
  )
  for (const one of [role, ...ownRules]) await admin.create(`${rbac}/clusterroles`, one as object)

  /** Returns the kinds that an account with these roles may follow, and the refused ones. */
  const follow = async (t: Test, user: string, roles: readonly string[]) => {
    for (const name of roles) {
      await admin.create(`${rbac}/clusterrolebindings`, {
        metadata: { name: `${user}-${name}` },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [{ kind: 'ServiceAccount', name: user, namespace: 'default' }],
      })
    }
    await admin.create('/api/v1/namespaces/default/serviceaccounts', { metadata: { name: user } })
    const { metadata } = await admin.get(`/api/v1/namespaces/default/serviceaccounts/${user}`)
    const account = { namespace: 'default', name: user, uid: metadata.uid }
    const token = { text: controlPlane.signToken({ account, lifeMs: 3_600_000 }) }
    const api = apiClient(t, { server, ca: { file: caFile }, token })
    const sink = new KeptSink()
    const components = { api, sink, events: new Warnings(), log: capturedLog().log, clock: systemClock }
    const kinds = new Kinds({ ...components, random: Math.random }, { follow: {} })
    const stopping = new AbortController()
    const running = kinds.run(stopping.signal)
    t.teardown(async () => {
      stopping.abort()
      await running
      await api.close()
    })
    return {
      are: (is: string, wanted: readonly string[]) =>
        eventually(
          async () => {
            const found = wanted.map((kind) => `${kind} ${sink.states.get(kind)?.is}`)
            if (found.every((one) => one.endsWith(` ${is}`))) return
            throw new Error(`not ${is}: ${found.join(', ')}`)
          },
          { timeoutMs: 30_000 },
        ),
      refused: () => [...sink.states].filter(([, { is }]) => is === 'refused').map(([kind]) => kind),
    }
  }

  await t.test('without it they are not followed, and named', async (t) => {
    const { are } = await follow(t, 'without', ['agentk-views'])
    await are('refused', vendorKinds)
    await are('live', ['apiextensions.k8s.io/CustomResourceDefinition'])
  })

  await t.test('with it no kind that it can name is left', async (t) => {
    const { are, refused } = await follow(t, 'with', ['agentk-views', 'agentk-views-vendors'])
    await are('live', vendorKinds)
    await are('refused', ['s3.aws.upbound.io/Bucket'])
    const rules = await vendorRules()
    const exact = refused().filter((kind) => rules.some((rule) => rule.kind === kind))
    t.strictSame(exact, [], 'none that has a rule of its own')
  })
})

function definitionOf(key: string): object {
  const [group = '', kind = ''] = key.split('/')
  const plural = pluralOf(kind)
  return {
    ...widgetDefinition,
    metadata: {
      name: `${plural}.${group}`,
      annotations: { 'api-approved.kubernetes.io': 'unapproved, for a test' },
    },
    spec: { ...widgetDefinition.spec, group, names: { plural, kind, singular: kind.toLowerCase() } },
  }
}
