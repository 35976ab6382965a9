import t from 'tap'
import {
  type GitRepository,
  type Receiver,
  readGitRepository,
  readReceiver,
} from '../../../../../src/agentk/modules/flux/flux-objects.ts'
import {
  isAsWanted,
  receiverManifest,
  receiverName,
  secretManifest,
  secretName,
} from '../../../../../src/agentk/modules/flux/own-receiver.ts'
import { pushTargets, receiverOf } from '../../../../../src/agentk/modules/flux/receiver-choice.ts'

const apis = { repositories: 'source.toolkit.fluxcd.io/v1', receivers: 'notification.toolkit.fluxcd.io/v1' }
const path = (digit: string) => `/hook/${digit.repeat(64)}`

function repository(name: string, namespace = 'apps', url = `https://gitlab/${namespace}/${name}`): GitRepository {
  const object = { metadata: { name, namespace, uid: `uid-${name}` }, spec: { url } }
  return readGitRepository(object) as GitRepository
}

/** Returns a Receiver as agentk makes it, with the fields that Flux adds. */
function own(of: GitRepository, changes: { spec?: object; status?: object; metadata?: object } = {}): Receiver {
  const made = receiverManifest({ repository: of, project: 'apps/web', agentId: 42n, apis }) as Record<string, object>
  return readReceiver({
    metadata: { ...made.metadata, ...changes.metadata },
    spec: { ...made.spec, ...changes.spec },
    status: { webhookPath: path('a'), ...changes.status },
  }) as Receiver
}

function others(name: string, changes: { spec?: object; annotations?: object; status?: object } = {}): Receiver {
  return readReceiver({
    metadata: { name, namespace: 'apps', annotations: changes.annotations },
    spec: { type: 'generic', resources: [{ kind: 'GitRepository', name: 'web' }], ...changes.spec },
    status: { webhookPath: path('b'), ...changes.status },
  }) as Receiver
}

const web = repository('web')

t.test('of several Receivers one is called', async (t) => {
  const names = (...receivers: Receiver[]) => receiverOf(web, receivers)?.name
  t.equal(names(own(web)), 'gitlab-web')
  t.equal(names(others('theirs')), 'theirs', 'one that somebody has made')
  t.equal(names(others('theirs'), own(web)), 'gitlab-web', 'its own before others')
  const many = { resources: ['a', 'web'].map((name) => ({ kind: 'GitRepository', name })) }
  t.equal(names(others('a-many', { spec: many }), others('one')), 'one', 'one that triggers nothing else before')
  t.equal(names(own(web, { status: { webhookPath: '' } }), others('theirs')), 'theirs', 'one that can be called')
  t.equal(names(), undefined)
})

t.test('which Receivers cannot be called', async (t) => {
  const called = (receiver: Receiver) => receiverOf(web, [receiver]) !== undefined
  for (const type of ['gitlab', 'github', 'generic-hmac', '']) t.notOk(called(others('x', { spec: { type } })), type)
  t.notOk(called(others('x', { spec: { suspend: true } })), 'suspended')
  t.notOk(called(others('x', { spec: { resources: [{ kind: 'GitRepository', name: 'api' }] } })))
  t.notOk(called(others('x', { spec: { resources: [{ kind: 'OCIRepository', name: 'web' }] } })))
  const byLabels = [{ kind: 'GitRepository', name: '*', matchLabels: { a: 'b' } }]
  t.notOk(called(others('x', { spec: { resources: byLabels } })), 'by labels')
  const elsewhere = [{ kind: 'GitRepository', name: 'web', namespace: 'other' }]
  t.notOk(called(others('x', { spec: { resources: elsewhere } })), 'one of that name in another namespace')
  for (const bad of ['', '/', 'hook/x', '/hook/../../api/v1/secrets', '/./x', '/hook/x?y', '//evil/x', '/hook/%2e%2e'])
    t.notOk(called(others('x', { status: { webhookPath: bad } })), `path ${bad}`)
  t.ok(called(others('x', { status: { webhookPath: undefined, url: '/hook/x' } })), 'as v1beta1 has it')
  const fromOther = { ...others('x'), namespace: 'other' }
  t.notOk(receiverOf(web, [fromOther]), 'Flux may forbid it across namespaces, so agentk has its own')
  t.notOk(receiverOf({ ...web, uid: 'new' }, [own(web)]), 'of a GitRepository of that name that is gone')
})

t.test('what a push triggers', async (t) => {
  const [api, web2] = [repository('api'), repository('web2', 'apps', 'ssh://git@gitlab/apps/web.git')]
  const targets = (project: string, receivers: Receiver[], isDenied = false) =>
    pushTargets(project, {
      repositories: () => new Map([web, api, web2].map((each) => [each.key, each])),
      receivers: () => new Map(receivers.map((each) => [each.key, each])),
      projectOf: ({ url }) => /gitlab\/(.*?)(\.git)?$/.exec(url)?.[1],
      isDenied: () => isDenied,
    }).map(({ key, path }) => [key, path()])
  t.strictSame(
    targets('apps/web', [own(web), own(web2)]),
    [
      ['apps/gitlab-web', path('a')],
      ['apps/gitlab-web2', path('a')],
    ],
    'each GitRepository of the project',
  )
  t.strictSame(targets('apps/api', [own(web)]), [['GitRepository apps/api', '']], 'its Receiver is still to come')
  t.strictSame(targets('apps/api', [own(web)], true), [], 'or never comes')
  t.strictSame(targets('apps/other', [own(web)]), [])
  const both = { resources: ['web', 'web2'].map((name) => ({ kind: 'GitRepository', name })) }
  t.strictSame(targets('apps/web', [others('both', { spec: both })]), [['apps/both', path('b')]], 'one for both')
  const annotated = others('oci', {
    annotations: { 'agent.gitlab.com/project': 'apps/other' },
    spec: { resources: [{ kind: 'OCIRepository', name: 'x' }] },
  })
  t.strictSame(targets('apps/other', [annotated]), [['apps/oci', path('b')]], 'one that says it itself')
  t.strictSame(
    targets('apps/api', [own(api, { spec: { suspend: true } })]),
    [],
    'a Receiver that somebody has suspended is not called',
  )
})

t.test('the Receiver and the Secret that agentk makes', async (t) => {
  const wanted = { repository: web, project: 'apps/web', agentId: 42n, apis }
  const owner = {
    apiVersion: 'source.toolkit.fluxcd.io/v1',
    kind: 'GitRepository',
    name: 'web',
    uid: 'uid-web',
    controller: true,
  }
  const annotations = { 'app.kubernetes.io/managed-by': 'gitlab', 'agent.gitlab.com/id': '42' }
  t.strictSame(receiverManifest(wanted), {
    apiVersion: 'notification.toolkit.fluxcd.io/v1',
    kind: 'Receiver',
    metadata: {
      name: 'gitlab-web',
      namespace: 'apps',
      annotations: { ...annotations, 'agent.gitlab.com/project': 'apps/web' },
      ownerReferences: [owner],
    },
    spec: {
      type: 'generic',
      interval: '5m0s',
      resources: [{ kind: 'GitRepository', name: 'web', namespace: 'apps' }],
      secretRef: { name: 'gitlab-receiver-web' },
    },
  })
  const secret = secretManifest(wanted) as { metadata: object; stringData: { token: string } }
  t.match(secret, { apiVersion: 'v1', kind: 'Secret', type: 'Opaque' })
  t.strictSame(secret.metadata, {
    name: 'gitlab-receiver-web',
    namespace: 'apps',
    annotations,
    ownerReferences: [owner],
  })
  t.match(secret.stringData.token, /^[0-9a-f]{64}$/)
  t.not(secret.stringData.token, (secretManifest(wanted) as typeof secret).stringData.token)
  t.ok(isAsWanted(own(web), wanted))
  t.ok(isAsWanted(own(web, { metadata: { labels: { a: 'b' } }, spec: { interval: '1h' } }), wanted))
  t.notOk(isAsWanted(own(web), { ...wanted, project: 'apps/moved' }))
  t.notOk(isAsWanted(own(web, { spec: { type: 'gitlab' } }), wanted))
  t.notOk(isAsWanted(own(web, { spec: { secretRef: { name: 'x' } } }), wanted))
  t.notOk(isAsWanted(own(web, { spec: { resources: [] } }), wanted))
})

t.test('names that are too long stay apart', async (t) => {
  const [one, two] = ['1', '2'].map((last) => repository(`${'long-'.repeat(49)}-${last}`)) as [
    GitRepository,
    GitRepository,
  ]
  for (const name of [receiverName, secretName]) {
    t.not(name(one), name(two))
    t.match(name(one), /^gitlab-(receiver-)?long-.*-[0-9a-f]{10}$/)
  }
  t.equal(receiverName(one).length <= 63, true)
  t.equal(secretName(one).length <= 253, true)
})

t.test('objects of another shape are none, or empty', async (t) => {
  for (const bad of [undefined, null, 1, 'x', [], {}, { metadata: null }, { metadata: { name: 'x' } }]) {
    t.equal(readGitRepository(bad), undefined)
    t.equal(readReceiver(bad), undefined)
  }
  const metadata = { name: 'x', namespace: 'y' }
  t.match(readGitRepository({ metadata, spec: { url: 1 } }), { key: 'y/x', url: '', uid: '' })
  const odd = { metadata, spec: { resources: [1, null, {}], secretRef: 5 }, status: { conditions: 'x' } }
  t.match(readReceiver(odd), { type: '', webhookPath: '', resources: [{ kind: '', name: '', namespace: 'y' }] })
})
