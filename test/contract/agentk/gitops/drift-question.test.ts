import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import { callerMessage } from '../../../../src/kas/agent-caller.ts'
import { ReviewRequestSchema, ReviewResponseSchema } from '../../../../src/proto/gen/gitops_drift_pb.ts'
import { Gitops } from '../../../../src/proto/gen/gitops_questions_pb.ts'
import { Phase } from '../../../../src/proto/gen/gitops_states_pb.ts'
import { methodPath } from '../../../../src/proto/unary.ts'
import { eventually } from '../../../support/eventually.ts'
import { askForDrift, call, user } from './drift-questions.ts'
import { ProjectKas, startGitops } from './gitops-side.ts'
import { Ground, keyOf, skip } from './ground.ts'

/** Asks agentk what differs, as callers with different rights, with a real API server. */

const files = {
  'web.yaml': `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: web, image: "nginx:1" }] }
`,
  'token.yaml': `
apiVersion: v1
kind: Secret
metadata: { name: token, annotations: { note: kept-secret-note } }
stringData: { password: in-git, user: shop }
`,
  'service.yaml': `
apiVersion: v1
kind: Service
metadata: { name: web }
spec:
  selector: { app: web }
  ports: [{ name: a, port: 80 }, { name: b, port: 81 }]
`,
}
const rbac = 'rbac.authorization.k8s.io'

t.test('questions about drift', { skip, timeout: 180_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  const mayGet = async (name: string, resources: string[], apiGroups: string[]) => {
    const metadata = { name, namespace: 'shop' }
    await ground.create(keyOf('Role', name, 'shop', rbac), {
      metadata,
      rules: [{ apiGroups, resources, verbs: ['get'] }],
    })
    const subjects = [{ kind: 'User', name: `gitlab:user:${name}`, apiGroup: rbac }]
    const roleRef = { apiGroup: rbac, kind: 'Role', name }
    await ground.create(keyOf('RoleBinding', name, 'shop', rbac), { metadata, subjects, roleRef })
  }
  await mayGet('ada', ['deployments', 'services'], ['apps', ''])
  await mayGet('sue', ['secrets'], [''])
  const project = new ProjectKas(301n)
  const side = await startGitops(t, ground, project, {
    manifest_projects: [{ id: 'platform/shop', default_namespace: 'shop', drift: { mode: 'report' } }],
  })
  const state = () => project.states.findLast(({ source }) => source === '42-301')
  project.push(files)
  await eventually(() => state()?.phase === Phase.SYNCED && state()?.commit === project.commit)

  const drift = (as: string | undefined, asked: { readonly scan?: boolean } = {}) =>
    askForDrift(side.methods(), { source: '42-301', as, ...asked })
  const patch = async (key: Parameters<Ground['path']>[0], body: object, manager: string) => {
    const options = { contentType: 'application/strategic-merge-patch+json' }
    const answer = await ground.client.json(
      'PATCH',
      `${ground.path(key)}?fieldManager=${manager}`,
      body,
      undefined,
      options,
    )
    if (answer.status !== 200) throw new Error(JSON.stringify(answer.body))
  }
  const web = keyOf('Deployment', 'web', 'shop', 'apps')
  const named = (kind: string) => state()?.drifted.some(({ key }) => key?.kind === kind)

  await t.test('nothing differs at first, and a scan compares each object', async (t) => {
    const { objects, end } = await drift(undefined, { scan: true })
    t.equal(objects.length, 0)
    t.match(end, { objects: 3, compared: 3, withheld: 0, problem: '', mode: 'report' })
  })

  await t.test('a field that was changed has both values, and who changed it', async (t) => {
    await patch(
      web,
      { spec: { template: { spec: { containers: [{ name: 'web', image: 'nginx:2' }] } } } },
      'kubectl-edit',
    )
    await eventually(() => named('Deployment'))
    const { objects, end } = await drift(undefined)
    t.match(objects, [
      {
        object: { key: { kind: 'Deployment', name: 'web' }, kind: 'drifted', manager: 'kubectl-edit', left: 'mode' },
        field: [
          {
            path: '.spec.template.spec.containers[name="web"].image',
            kind: 'changed',
            before: '"nginx:1"',
            after: '"nginx:2"',
            manager: 'kubectl-edit',
            operation: 'Update',
          },
        ],
        more: 0,
      },
    ])
    t.match(end, { withheld: 0, cut: 0 })
  })

  await t.test('after two changes within one second the second value is shown', async (t) => {
    for (const image of ['nginx:3', 'nginx:4'])
      await patch(web, { spec: { template: { spec: { containers: [{ name: 'web', image }] } } } }, 'kubectl-edit')
    t.match((await drift(undefined)).objects, [{ field: [{ after: '"nginx:4"' }] }])
  })

  await t.test('a Secret shows the names of its keys, and no value, to who may get it', async (t) => {
    const secret = keyOf('Secret', 'token', 'shop')
    const data = { password: Buffer.from('in-cluster').toString('base64'), more: 'bW9yZQ==' }
    await patch(secret, { data, metadata: { annotations: { note: 'other-note' } } }, 'kubectl-edit')
    await eventually(() => named('Secret'))
    const { objects, end, text } = await drift('sue')
    t.match(objects, [{ object: { key: { kind: 'Secret', name: 'token' } } }])
    t.match(
      objects[0]?.field.find(({ secretKey }) => secretKey === 'password'),
      { path: '.data…', before: '***', after: '***' },
    )
    t.match(end, { withheld: 1 })
    for (const value of ['in-git', 'in-cluster', data.password, 'kept-secret-note', 'other-note', 'nginx']) {
      t.notMatch(text, value)
    }
  })

  await t.test('whoever may not get an object learns that some differ, and nothing else', async (t) => {
    const ada = await drift('ada')
    t.match(ada.objects, [{ object: { key: { kind: 'Deployment' } } }])
    t.match(ada.end, { withheld: 1 })
    t.notMatch(ada.text, /token|password/)
    const nobody = await drift('bob')
    t.equal(nobody.objects.length, 0)
    t.match(nobody.end, { withheld: 2 })
    t.notMatch(nobody.text, /token|password|nginx|"web"/)
  })

  await t.test('items in another order are found by a scan', async (t) => {
    const service = keyOf('Service', 'web', 'shop')
    const live = await ground.get(service)
    live.spec.ports.reverse()
    const answer = await ground.client.json('PUT', `${ground.path(service)}?fieldManager=kubectl-replace`, live)
    t.equal(answer.status, 200)
    const { objects, end } = await drift('ada', { scan: true })
    t.match(
      objects.find(({ object }) => object?.key?.kind === 'Service'),
      { object: { kind: 'drifted', manager: '' }, field: [{ path: '.spec.ports', kind: 'reordered' }] },
    )
    t.match(end, { objects: 3, compared: 3 })
  })

  await t.test('a review says what each caller may get', async (t) => {
    const subject = [
      { group: 'apps', kind: 'Deployment', namespace: 'shop' },
      { group: '', kind: 'Secret', namespace: 'shop' },
      { group: 'apps', kind: 'Deployment', namespace: 'gitops' },
      { group: 'example.com', kind: 'Thing', namespace: 'shop' },
      { group: '*', kind: '*', namespace: 'shop' },
    ]
    const review = async (as: string | undefined) => {
      const caller = callerMessage({ key: 'k' }, as === undefined ? undefined : user(`gitlab:user:${as}`))
      const request = toBinary(ReviewRequestSchema, create(ReviewRequestSchema, { caller, subject }))
      const [answer = new Uint8Array()] = await call(side.methods(), methodPath(Gitops.method.review), request)
      return fromBinary(ReviewResponseSchema, answer).mayGet
    }
    t.strictSame(await review('ada'), [true, false, false, false, false])
    t.strictSame(await review('sue'), [false, true, false, false, false])
    t.strictSame(await review(undefined), [true, true, true, true, true])
    await t.rejects(
      call(
        side.methods(),
        methodPath(Gitops.method.review),
        toBinary(
          ReviewRequestSchema,
          create(ReviewRequestSchema, { caller: callerMessage({ key: 'k' }, user('system:admin')), subject }),
        ),
      ),
      { code: 'IDENTITY_REFUSED' },
    )
  })

  await t.test('once this pod does not lead, nothing is served', async (t) => {
    await side.stop()
    t.equal(side.methods().size, 0)
  })
})
