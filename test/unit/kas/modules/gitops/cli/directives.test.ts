import type { RequestListener } from 'node:http'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { startKasCli } from '../../../../../support/kas-cli.ts'

const object = '/apis/agent.gitlab.com/v1/namespaces/agentk/gitsyncs/42-7'
const source = {
  source: '42-7',
  project: 'platform/shop',
  commit: 'a'.repeat(40),
  wanted: 'b'.repeat(40),
  phase: 'APPROVAL',
  problem: '',
  trouble: [],
  stale: false,
  plan: '8d5f',
  leaving: [
    { key: { kind: 'Namespace', namespace: '', name: 'old\u001b[31m' }, code: 'kind', text: 'with it goes 1 Pod' },
  ],
  object,
}

/** Starts a kas, and an API server behind it, that answer as the test says. */
async function start(t: Test, given: object = {}, { answer = '', isTTY = true, patchStatus = 200, pause = '' } = {}) {
  const asked: string[] = []
  const listener: RequestListener = async (request, response) => {
    const body = await text(request)
    asked.push(`${request.method} ${request.url} ${request.headers['content-type'] ?? ''} ${body}`.trim())
    response.statusCode = request.method === 'PATCH' ? patchStatus : 200
    const live = { metadata: { annotations: { 'agent.gitlab.com/pause': pause } } }
    const state = { sources: [{ ...source, ...given }] }
    const isPatch = request.method === 'PATCH'
    response.end(isPatch ? '{"message":"no"}' : JSON.stringify(request.url?.endsWith(object) ? live : state))
  }
  const { printed, run: kas } = await startKasCli(t, listener, { answer, isTTY })
  const run = (...args: string[]) => kas('gitops', ...args)
  return { asked, printed, run, patches: () => asked.filter((one) => one.startsWith('PATCH')) }
}

const patchOf = (annotations: object) =>
  `PATCH /k8s-proxy${object} application/merge-patch+json ${JSON.stringify({ metadata: { annotations } })}`

t.test('approve names what goes, and approves after yes', async (t) => {
  const { run, printed, patches } = await start(t, {}, { answer: 'y\n' })
  t.equal(await run('approve', 'platform/shop'), 0)
  t.equal(
    printed.err,
    'platform/shop deletes:\n  Namespace old?[31m: with it goes 1 Pod\nApprove plan 8d5f of platform/shop? [y/N] ',
  )
  t.strictSame(patches(), [patchOf({ 'agent.gitlab.com/approve': '8d5f' })])
  t.match(printed.out, /the plan of platform\/shop is approved/)
})

t.test('no name passes for a line of the list, or for the question', async (t) => {
  const name = 'old\nApprove plan 8d5f of platform/shop? '
  const leaving = [{ key: { kind: 'Namespace', namespace: '', name }, code: 'kind', text: 'a\n\n  ConfigMap b' }]
  const { run, printed } = await start(t, { leaving, plan: '8d5f\n\n' }, { answer: 'n\n' })
  t.equal(await run('approve', 'platform/shop'), 1)
  t.strictSame(printed.err.split('\n'), [
    'platform/shop deletes:',
    '  Namespace old?Approve plan 8d5f of platform/shop? : a??  ConfigMap b',
    'Approve plan 8d5f?? of platform/shop? [y/N] ',
  ])
})

t.test('any other answer changes nothing', async (t) => {
  for (const answer of ['n\n', '\n', '', 'yesterday\n', 'y'.repeat(1000), 'no y\n']) {
    const { run, printed, patches } = await start(t, {}, { answer })
    t.equal(await run('approve', '42-7'), 1, answer.slice(0, 10))
    t.equal(printed.out, 'nothing is changed\n')
    t.strictSame(patches(), [])
  }
})

t.test('without a terminal it needs --yes', async (t) => {
  const { run, printed, patches } = await start(t, {}, { answer: 'y\n', isTTY: false })
  t.equal(await run('approve', '42-7'), 2)
  t.match(printed.err, /there is no terminal to ask on: --yes/)
  t.strictSame(patches(), [])
  t.equal(await run('approve', '42-7', '--yes'), 0)
  t.equal(patches().length, 1)
})

t.test('pause, resume and resync write their annotation', async (t) => {
  const { run, patches } = await start(t, { phase: 'SYNCED' }, { pause: 'true' }) // agentk reports the pause later
  t.equal(await run('pause', '42-7', '-y'), 0)
  t.equal(await run('resume', '42-7', '-y'), 0)
  t.equal(await run('resync', '42-7', '-y'), 0)
  const [paused, resumed, resynced] = patches()
  t.equal(paused, patchOf({ 'agent.gitlab.com/pause': 'true' }))
  t.equal(resumed, patchOf({ 'agent.gitlab.com/pause': null }))
  t.match(resynced, /"agent\.gitlab\.com\/resync":"\d{4}-\d\d-\d\dT/)
})

t.test('a directive that has no effect is refused before anything is sent', async (t) => {
  const { run, printed, patches } = await start(t, { phase: 'SYNCED', plan: '' })
  t.equal(await run('approve', '42-7', '-y'), 1)
  t.match(printed.err, /42-7 waits for no approval: it is SYNCED/)
  t.equal(await run('resume', '42-7', '-y'), 1)
  t.match(printed.err, /42-7 is not paused: it is SYNCED/)
  for (const pause of ['false', 'no', '1']) {
    const { run } = await start(t, { phase: 'SYNCED' }, { pause })
    t.equal(await run('resume', '42-7', '-y'), 1, pause)
  }
  t.strictSame(patches(), [])
})

t.test('a plan that is not shown whole is not approved here', async (t) => {
  const { run, printed, patches } = await start(t, { cut: true })
  t.equal(await run('approve', '42-7', '-y'), 1)
  t.match(printed.err, /has more objects than kas shows/)
  t.strictSame(patches(), [])
})

t.test('a plan with objects that the caller may not get is not approved by that caller', async (t) => {
  const { run, printed, patches } = await start(t, { withheld: 2 })
  t.equal(await run('approve', '42-7', '-y'), 1)
  t.match(
    printed.err,
    /2 objects of 42-7 are not named: you may not get them\. Somebody who may get them approves the plan/,
  )
  t.strictSame(patches(), [])
})

t.test('an agent that reports another object than its GitSync has nothing patched', async (t) => {
  const others = [
    '/api/v1/namespaces/shop/secrets/token',
    '/api/v1/namespaces/shop/configmaps/../secrets/token',
    '/apis/agent.gitlab.com/v1/namespaces/a/gitsyncs/b?dryRun=All',
    '/apis/agent.gitlab.com/v1/namespaces/a/gitsyncs/b/status',
    'https://other.example/apis/agent.gitlab.com/v1/namespaces/a/gitsyncs/b',
    '/api/v1/nodes/n',
  ]
  for (const other of others) {
    const { run, printed, patches } = await start(t, { object: other, phase: 'KEPT' })
    for (const word of ['pause', 'resync']) t.equal(await run(word, '42-7', '-y'), 1)
    t.equal(await run('forget', '42-7'), 1)
    t.match(printed.err, /no GitSync and no ConfigMap/, other)
    t.strictSame(patches(), [])
  }
  const { run, printed } = await start(t, { object: '' })
  t.equal(await run('pause', '42-7', '-y'), 1)
  t.match(printed.err, /agentk has not named the object of 42-7 yet/)
})

t.test('a refusal of the API server is the answer', async (t) => {
  const { run, printed } = await start(t, {}, { patchStatus: 403 })
  t.equal(await run('pause', '42-7', '-y'), 1)
  t.match(printed.err, /no/)
})

t.test('an unknown source, no source and two sources', async (t) => {
  const { run, printed } = await start(t)
  t.equal(await run('pause', '42-8', '-y'), 1)
  t.match(printed.err, /no source 42-8 is known/)
  t.equal(await run('pause'), 2)
  t.equal(await run('pause', 'a', 'b'), 2)
  t.match(printed.err, /allowed is one source/)
  for (const word of ['approve', 'pause', 'resume', 'resync']) {
    t.equal(await run(word, '--help'), 0)
    t.match(printed.out, new RegExp(`^usage: kas gitops ${word} SOURCE`, 'm'))
  }
})
