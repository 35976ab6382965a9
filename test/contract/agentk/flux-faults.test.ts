import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { startFlux } from './flux-side.ts'

/** Flux is missing, or the API server refuses or fails: the actions and log lines of agentk. */

const url = (project: string) => `https://gitlab.example.com/apps/${project}`
const own = { app: 'app.kubernetes.io/managed-by', project: 'agent.gitlab.com/project' }

/** A Receiver that a user made for the GitRepository `web`. */
const usersReceiver = {
  spec: { type: 'generic', resources: [{ kind: 'GitRepository', name: 'web' }], secretRef: { name: 'x' } },
  status: { webhookPath: '/hook/of-a-user' },
}

/** A user's Receiver with a project of its own. When agentk follows that project, it knows the earlier ones too. */
const last = {
  metadata: { annotations: { [own.project]: 'apps/last' } },
  spec: { type: 'generic', resources: [{ kind: 'OCIRepository', name: 'x' }], secretRef: { name: 'x' } },
}

t.test('Flux comes later, goes, and comes back in other versions: one line each time', async (t) => {
  const { api, next, configure, says, isSaid, isCalled } = await startFlux(t, (api) => {
    api.served.set('source.toolkit.fluxcd.io', ['v1beta2'])
    api.served.delete('notification.toolkit.fluxcd.io')
  })
  configure()
  await isSaid(/^Flux is not installed/)
  const asked = api.requests.length
  await eventually(() => api.requests.length > asked + 6)
  t.equal(says(/^Flux is not installed/).length, 1)
  t.strictSame(
    [...new Set(api.requests)].filter((each) => !each.startsWith('other /apis/')),
    [],
    'only looked for',
  )
  api.served.set('notification.toolkit.fluxcd.io', ['v1beta1', 'v1beta2'])
  await isSaid(/^Flux is followed$/)
  t.strictSame(says(/^Flux is followed$/)[0]?.apis, [
    'source.toolkit.fluxcd.io/v1beta2',
    'notification.toolkit.fluxcd.io/v1beta2',
  ])
  api.repository('apps/web', url('web'))
  const { stream } = await next()
  await isSaid(/^Made a Receiver$/)
  t.match(api.get('receivers', 'apps/gitlab-web'), { apiVersion: 'notification.toolkit.fluxcd.io/v1beta2' })
  api.served.set('source.toolkit.fluxcd.io', ['v1'])
  api.endWatches(200)
  await eventually(() => stream.signal.aborted)
  await isSaid(/^Flux is followed$/, 2)
  api.ready('apps/gitlab-web')
  const { tell } = await next()
  tell('apps/web', 1n)
  await isCalled(1)
  t.same(
    says(/./).filter(({ level }) => level === 'warn' || level === 'error'),
    [],
  )
})

t.test('who may not watch is told so once, and looks again', async (t) => {
  const { api, next, configure, says, isSaid } = await startFlux(t, (api) => {
    api.refused.set('list gitrepositories', 403)
    api.refused.set('watch receivers', 403)
  })
  api.repository('apps/web', url('web'))
  configure()
  await isSaid(/^agentk may not watch objects of Flux$/, 2)
  await eventually(() => api.requests.filter((each) => each === 'list gitrepositories').length > 3)
  t.strictSame(
    says(/^agentk may not/)
      .map(({ level, resource, verbs }) => [level, resource, verbs])
      .sort(),
    [
      ['warn', 'gitrepositories.source.toolkit.fluxcd.io', ['list', 'watch']],
      ['warn', 'receivers.notification.toolkit.fluxcd.io', ['list', 'watch']],
    ],
  )
  api.refused.clear()
  t.strictSame((await next()).projects, ['apps/web'])
})

t.test('who may not make Receivers uses those that there are, and says once what is missing', async (t) => {
  const { api, next, called, configure, isCalled, isSaid, says } = await startFlux(t, (api) => {
    api.refused.set('create secrets', 403)
  })
  api.repository('apps/api', url('api'))
  api.repository('apps/web', url('web'))
  configure()
  await next()
  await isSaid(/^agentk may not make Receivers of Flux/)
  api.put('receivers', 'apps/mine', usersReceiver)
  api.put('receivers', 'apps/of-gitlab', { ...usersReceiver, spec: { ...usersReceiver.spec, type: 'gitlab' } })
  api.put('receivers', 'apps/last', last)
  const { tell, projects } = await next()
  t.strictSame(projects, ['apps/api', 'apps/last', 'apps/web'], 'the Receivers before it are known, too')
  tell('apps/api', 1n) // has no Receiver, and gets none
  tell('apps/web', 2n)
  await isCalled(1)
  t.strictSame(called, ['POST /hook/of-a-user'])
  t.equal(says(/^agentk may not make/).length, 1)
  t.match(says(/^agentk may not make/), [{ level: 'warn', needed: [/create secrets/, /create, patch receivers/] }])
  t.equal(says(/^Flux could not be notified/).length, 0)
  t.notOk(api.requests.includes('create receivers'))
})

t.test('of all Receivers of a GitRepository one is called; nothing of others is changed', async (t) => {
  const { api, next, called, configure, isCalled, isSaid, says } = await startFlux(t)
  api.repository('apps/web', url('web'))
  const taken = { ...usersReceiver, spec: { ...usersReceiver.spec, type: 'gitlab' } }
  api.put('receivers', 'apps/gitlab-api', taken) // has the name that agentk would choose
  api.repository('apps/api', url('api'))
  configure()
  const { tell } = await next()
  await isSaid(/^Made a Receiver$/, 2)
  api.ready('apps/gitlab-web')
  api.put('receivers', 'apps/mine', usersReceiver)
  tell('apps/web', 1n)
  await isCalled(1)
  t.strictSame(called, ['POST /hook/apps-gitlab-web'])
  t.match(api.get('receivers', 'apps/gitlab-api'), taken)
  const others = says(/^Made a Receiver$/).map(({ receiver }) => String(receiver))
  const other = others.find((key) => key !== 'apps/gitlab-web') as string
  t.match(other, /^apps\/gitlab-api-[0-9a-f]{10}$/, 'one of ours beside it')
  api.ready(other, '/hook/other')
  tell('apps/api', 2n)
  await isCalled(2)
  t.equal(called[1], 'POST /hook/other')
})

t.test('a Receiver of ours that is changed is repaired, one that is deleted is made again', async (t) => {
  const { api, next, configure, isSaid, says } = await startFlux(t)
  api.repository('apps/web', url('web'))
  configure()
  await next()
  await isSaid(/^Made a Receiver$/)
  const made = api.get('receivers', 'apps/gitlab-web')
  api.put('receivers', 'apps/gitlab-web', { spec: { ...made.spec, type: 'gitlab' } })
  await isSaid(/^Repaired a Receiver$/)
  t.match(api.get('receivers', 'apps/gitlab-web'), { spec: { type: 'generic' } })
  api.put('receivers', 'apps/gitlab-web', { spec: { ...made.spec, type: 'gitlab' } })
  api.put('receivers', 'apps/last', last)
  t.strictSame((await next()).projects, ['apps/last', 'apps/web'], 'the change before it is known, too')
  api.repository('apps/zzz', url('zzz'))
  await isSaid(/^Made a Receiver$/, 2) // the same pass looks at `web` first
  t.equal(says(/^Repaired a Receiver$/).length, 1, 'not in a loop with whoever changes it')
  api.remove('receivers', 'apps/gitlab-web')
  await isSaid(/^Made a Receiver$/, 3)
  const { annotations } = api.get('receivers', 'apps/gitlab-web').metadata
  t.match(annotations, { [own.app]: 'gitlab', [own.project]: 'apps/web', 'agent.gitlab.com/id': '42' })
  t.equal(api.requests.filter((each) => each === 'patch receivers').length, 1)
})

t.test('an object that cannot be made keeps no other from being made', async (t) => {
  const { api, next, configure, isSaid, says } = await startFlux(t, (api) => {
    api.refusedNamespaces.set('broken', 500)
    api.refusedNamespaces.set('ending', 403)
  })
  for (const namespace of ['broken', 'ending', 'apps']) api.repository(`${namespace}/web`, url('web'))
  configure()
  await next()
  await isSaid(/^Made a Receiver$/)
  await isSaid(/^Cannot make or repair a Receiver of Flux/)
  api.refusedNamespaces.clear()
  api.repository('apps/api', url('api')) // a change also triggers a new try
  await isSaid(/^Made a Receiver$/, 3)
  t.strictSame(
    says(/^Made a Receiver$/)
      .map(({ receiver }) => receiver)
      .sort(),
    ['apps/gitlab-api', 'apps/gitlab-web', 'broken/gitlab-web'],
    'what is forbidden is not tried again soon',
  )
})

for (const [title, end, warnings] of [
  ['are cut', 0, 6],
  ['have missed too much', 410, 0],
  ['fail', 500, 6],
] as const) {
  t.test(`watches that ${title} go on, and nothing is missed`, async (t) => {
    const watch = { firstRetryMs: 20, maxRetryMs: 5000 } // each watch ends so early that its end counts as a failure
    const { api, configure, isSaid, streams, lines } = await startFlux(t, undefined, { watch })
    configure()
    await eventually(() => api.watches === 2)
    for (const i of [1, 2, 3]) {
      api.isSilent = true
      api.repository(`apps/p${i}`, url(`p${i}`)) // this watch does not report the new object
      api.isSilent = false
      api.endWatches(end)
      await isSaid(/^Made a Receiver$/, i)
      await eventually(() => api.watches === 2)
      api.endWatches(200)
      await eventually(() => api.watches === 2)
    }
    await eventually(() => streams.at(-1)?.projects.join() === 'apps/p1,apps/p2,apps/p3')
    const said = lines.filter(({ level }) => level === 'warn').map(({ msg }) => msg)
    t.strictSame(said, Array(warnings).fill('Cannot watch objects of Flux'), 'one line for each failure of a watch')
  })
}

t.test('a watch that says nothing is left in time; lists of many pages are read', async (t) => {
  const options = { watch: { watchMs: 1000, graceMs: 200, firstRetryMs: 10 } }
  const { api, configure, next, streams } = await startFlux(t, undefined, options)
  for (let i = 0; i < 120; i++) api.repository(`apps/p${i}`, url(`p${i}`))
  configure()
  t.equal((await next()).projects.length, 120)
  api.isSilent = true
  api.repository('apps/late', url('late'))
  const late = await eventually(() => {
    const found = streams.find(({ projects }) => projects.includes('apps/late'))
    return found ?? Promise.reject(new Error('not followed yet'))
  })
  t.equal(late.projects.length, 121)
})
