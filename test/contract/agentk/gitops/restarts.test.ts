import t from 'tap'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { eventually } from '../../../support/eventually.ts'
import { widgetDefinition } from '../../../support/widget-definition.ts'
import { Ground, keyOf, skip } from './ground.ts'
import { type Files, Pod } from './pod.ts'

/** Git itself sets the time of a restart, as in a manifest that somebody has exported. On a real API server. */

const restarted = 'kubectl.kubernetes.io/restartedAt'
const day = (of: number) => `2026-01-${String(of).padStart(2, '0')}T08:00:00Z`

/** @param more - of the spec */
const workload = (kind: string, name: string, time: string, more = '', annotation = restarted) => `
apiVersion: apps/v1
kind: ${kind}
metadata: { name: ${name} }
spec:
  ${more}
  ${kind === 'StatefulSet' ? 'serviceName: a' : ''}
  selector: { matchLabels: { app: ${name} } }
  template:
    metadata: { labels: { app: ${name} }, annotations: { ${annotation}: "${time}" } }
    spec: { containers: [{ name: a, image: a }] }
`
const cronJob = (time: string, schedule: string) => `
apiVersion: batch/v1
kind: CronJob
metadata: { name: nightly }
spec:
  schedule: "${schedule}"
  jobTemplate:
    spec:
      template:
        metadata: { annotations: { ${restarted}: "${time}" } }
        spec: { restartPolicy: Never, containers: [{ name: a, image: a }] }
`
const widget = (times: Readonly<Record<string, string>>, size: number) => `
apiVersion: example.com/v1
kind: Widget
metadata: { name: sets }
spec:
  size: ${size}
  sets: [${Object.entries(times).map(
    ([name, time]) => `{ name: ${name}, podTemplate: { metadata: { annotations: { ${restarted}: "${time}" } } } }`,
  )}]
`

t.test('times of restarts', { skip, timeout: 240_000 }, async (t) => {
  const ground = await Ground.start(t)
  for (const name of ['shop', 'gitops']) await ground.create(keyOf('Namespace', name, ''), { metadata: { name } })
  let sources = 0n
  const podOf = (block: SourceBlock = {}) => new Pod(ground, { projectId: sources, block })
  const start = (block?: SourceBlock) => {
    sources += 1n
    return podOf(block)
  }
  const keyed = (kind: string, name: string) => keyOf(kind, name, 'shop', 'apps')
  const template = (time: string | null, annotation = restarted) => ({
    spec: { template: { metadata: { annotations: { [annotation]: time } } } },
  })
  const timeOf = async (kind: string, name: string, annotation = restarted) =>
    (await ground.get(keyed(kind, name))).spec.template.metadata.annotations[annotation]
  const file = (text: string): Files => ({ 'a.yaml': text })

  await t.test('a restart by hand is neither undone nor repeated, by no later round', async (t) => {
    for (const kind of ['Deployment', 'StatefulSet', 'DaemonSet']) {
      const name = `hand-${kind.toLowerCase()}`
      const key = keyed(kind, name)
      const files = file(workload(kind, name, day(1)))
      await start().bring(files)
      await ground.merge(key, template(day(2)), 'kubectl-rollout')
      const { spec, metadata } = await ground.get(key)
      t.match((await podOf().bring(files)).kinds, { [name]: 'applied' }, 'what Git has is the source’s again')
      t.match((await podOf().bring(files)).kinds, { [name]: 'unchanged' }, 'as if Git had changed nothing')
      const after = await ground.get(key)
      t.strictSame(after.spec, spec, kind)
      t.equal(after.metadata.generation, metadata.generation, 'no Pod restarts')
      t.equal(after.metadata.annotations['agent.gitlab.com/digest'], metadata.annotations['agent.gitlab.com/digest'])
      const changed = file(workload(kind, name, day(1), 'minReadySeconds: 3'))
      await podOf().bring(changed)
      const next = await ground.get(key)
      t.equal(next.spec.minReadySeconds, 3, 'all else is applied')
      t.strictSame(next.spec.template, spec.template, kind)
      t.match((await podOf().bring(changed)).kinds, { [name]: 'unchanged' })
      await podOf().bring(file(workload(kind, name, day(3), 'minReadySeconds: 3')))
      t.equal(await timeOf(kind, name), day(3), 'a later time in Git restarts')
    }
  })

  await t.test('an earlier time, the same in another zone, and texts that are no times', async (t) => {
    const cases: [name: string, git: string, live: string | null, sent: string][] = [
      ['earlier', day(1), day(2), day(2)],
      ['later', day(2), day(1), day(2)],
      ['zone', '2026-01-02T09:00:00+01:00', '2026-01-02T08:00:00Z', '2026-01-02T08:00:00Z'],
      ['zones', '2026-01-02T01:00:00-08:00', '2026-01-02T09:30:00+01:00', '2026-01-02T01:00:00-08:00'],
      ['fraction', '2026-01-02T08:00:00Z', '2026-01-02T08:00:00.5Z', '2026-01-02T08:00:00.5Z'],
      ['git-text', 'yesterday', day(2), 'yesterday'],
      ['live-text', day(1), 'now', day(1)],
      ['no-day', day(1), '2026-02-30T08:00:00Z', day(1)],
      ['date', day(1), '2026-01-02', day(1)],
      ['seconds', '1767225600', day(2), '1767225600'],
      ['removed', day(1), null, day(1)],
      ['empty', day(1), '', day(1)],
    ]
    for (const [name, git, live, sent] of cases) {
      await start().bring(file(workload('Deployment', name, git)))
      await ground.merge(keyed('Deployment', name), template(live), 'kubectl-rollout')
      await podOf().bring(file(workload('Deployment', name, git, 'minReadySeconds: 3')))
      t.equal(await timeOf('Deployment', name), sent, name)
    }
  })

  await t.test('whichever tool writes it, wherever a Pod template is', async (t) => {
    for (const annotation of ['tool.example/restartedAt', 'apps.example.com/restartedAt', 'restartedAt']) {
      const name = `tool-${annotation.replace(/[^a-z]/g, '')}`.toLowerCase()
      await start().bring(file(workload('Deployment', name, day(1), '', annotation)))
      await ground.merge(keyed('Deployment', name), template(day(2), annotation), 'tool')
      await podOf().bring(file(workload('Deployment', name, day(1), 'minReadySeconds: 3', annotation)))
      t.equal(await timeOf('Deployment', name, annotation), day(2), annotation)
    }
    const own = file(workload('Deployment', 'beside', day(1), '', 'example.com/at'))
    await start().bring(own)
    await ground.merge(keyed('Deployment', 'beside'), template(day(2), 'example.com/at'), 'tool')
    await podOf().bring(own)
    t.equal(await timeOf('Deployment', 'beside', 'example.com/at'), day(1), 'any other annotation is Git’s')

    await start().bring(file(cronJob(day(1), '0 1 * * *')))
    const cron = keyOf('CronJob', 'nightly', 'shop', 'batch')
    await ground.merge(cron, { spec: { jobTemplate: template(day(2)) } }, 'kubectl-edit')
    await podOf().bring(file(cronJob(day(1), '0 2 * * *')))
    t.match((await ground.get(cron)).spec, { schedule: '0 2 * * *', jobTemplate: template(day(2)) })

    await ground.create(
      keyOf('CustomResourceDefinition', 'widgets.example.com', '', 'apiextensions.k8s.io'),
      widgetDefinition,
    )
    const sets = keyOf('Widget', 'sets', 'shop', 'example.com')
    await eventually(async () => {
      await ground.readKinds()
      return ground.kinds.find(sets) !== undefined
    })
    await start().bring(file(widget({ a: day(1), b: day(1) }, 1)))
    const live = (await ground.get(sets)).spec.sets
    live[1].podTemplate.metadata.annotations[restarted] = day(2)
    await ground.merge(sets, { spec: { sets: live.toReversed() } }, 'kubectl-edit')
    await podOf().bring(file(widget({ a: day(1), b: day(1), c: day(1) }, 2)))
    const found = (await ground.get(sets)).spec.sets
    const times = found.map((one: typeof live) => one.podTemplate.metadata.annotations[restarted])
    t.strictSame(times, [day(1), day(2), day(1)], 'items of a list by their names')
  })

  await t.test('a restart while agentk applies counts too', async (t) => {
    await start().bring(file(workload('Deployment', 'raced', day(1))))
    const key = keyed('Deployment', 'raced')
    let restarts = 0
    const client = ground.client.json.bind(ground.client)
    t.teardown(() => Object.assign(ground.client, { json: client }))
    Object.assign(ground.client, {
      json: async (...request: Parameters<typeof client>) => {
        const [method, path] = request
        const isApply =
          method === 'PATCH' && path.includes('/deployments/raced?fieldManager=agentk-') && path.includes('force=')
        if (isApply && restarts < 2) {
          restarts += 1
          await client(
            'PATCH',
            `${ground.path(key)}?fieldManager=kubectl-rollout`,
            template(day(restarts + 1)),
            undefined,
            {
              contentType: 'application/merge-patch+json',
            },
          )
        }
        return await client(...request)
      },
    })
    t.match((await podOf().bring(file(workload('Deployment', 'raced', day(1), 'minReadySeconds: 3')))).kinds, {
      raced: 'applied',
    })
    t.equal(restarts, 2)
    t.equal(await timeOf('Deployment', 'raced'), day(3))
  })

  await t.test('with conflicts: fail it is no conflict, and a dry run shows none', async (t) => {
    const files = file(workload('Deployment', 'careful', day(1)))
    await start({ conflicts: 'fail' }).bring(files)
    await ground.merge(keyed('Deployment', 'careful'), template(day(2)), 'kubectl-rollout')
    const changed = file(workload('Deployment', 'careful', day(1), 'minReadySeconds: 3'))
    const dry = await podOf({ conflicts: 'fail', dry_run_strategy: 'server' }).round(changed)
    t.match(dry, { kind: 'dryRun', ends: [{ end: { kind: 'applied' } }] })
    t.equal((await ground.get(keyed('Deployment', 'careful'))).spec.minReadySeconds, undefined)
    t.match((await podOf({ conflicts: 'fail' }).bring(changed)).kinds, { careful: 'applied' })
    t.equal(await timeOf('Deployment', 'careful'), day(2))
  })

  await t.test('what kubectl has applied is taken over with its later time', async (t) => {
    const [text] = Object.values(file(workload('Deployment', 'taken', day(1)))) as [string]
    const live = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'taken', namespace: 'shop' },
      spec: {
        selector: { matchLabels: { app: 'taken' } },
        template: {
          metadata: { labels: { app: 'taken' }, annotations: { [restarted]: day(2) } },
          spec: { containers: [{ name: 'a', image: 'a' }] },
        },
      },
    }
    await ground.create(keyed('Deployment', 'taken'), live, 'kubectl-client-side-apply')
    const { spec } = await ground.get(keyed('Deployment', 'taken'))
    const pod = start({ inventory_policy: 'adopt_if_no_inventory' })
    t.match((await pod.bring(file(text))).kinds, { taken: 'applied' })
    t.equal(await timeOf('Deployment', 'taken'), day(2))
    t.strictSame((await ground.get(keyed('Deployment', 'taken'))).spec, spec, 'no Pod restarts')
  })

  await t.test('an account that may not read the object fails with the reason, and restarts nothing', async (t) => {
    const files = file(workload('Deployment', 'unread', day(1)))
    await start().bring(files)
    await ground.merge(keyed('Deployment', 'unread'), template(day(2)), 'kubectl-rollout')
    const path = '/apis/apps/v1/namespaces/shop/deployments/unread'
    const message = 'deployments.apps "unread" is forbidden'
    const pod = new Pod(ground, {
      projectId: sources,
      answer: (method, asked) => {
        return method === 'GET' && asked === path ? { status: 403, body: { kind: 'Status', message } } : undefined
      },
    })
    t.match((await pod.bring(files)).ends.unread, { kind: 'failed', problem: { kind: 'denied', text: message } })
    t.equal(await timeOf('Deployment', 'unread'), day(2))
  })

  await t.test('an object without such an annotation costs no further call', async (t) => {
    const files = (value: string) =>
      file(`apiVersion: v1\nkind: ConfigMap\nmetadata: { name: plain }\ndata: { a: "${value}" }\n`)
    await start().bring(files('1'))
    const gets: string[] = []
    const answer = (method: string, path: string) => {
      if (method === 'GET' && path.endsWith('/configmaps/plain')) gets.push(path)
      return undefined
    }
    await new Pod(ground, { projectId: sources, answer }).bring(files('2'))
    t.strictSame(gets, [])
  })
})
