import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { printableIo, runCli } from '../../../../../../src/kas/cli/cli.ts'
import { gitopsStatus } from '../../../../../../src/kas/modules/gitops/cli/status.ts'
import { startKasCli } from '../../../../../support/kas-cli.ts'
import { ManualClock } from '../../../../../support/manual-clock.ts'

const source = {
  source: '42-7',
  commit: 'a'.repeat(40),
  wanted: 'b'.repeat(40),
  phase: 'APPLYING',
  problem: '',
  counts: { objects: 40, applied: 3, unchanged: 20, failed: 1 },
  trouble: [
    { key: { kind: 'Service', namespace: 'shop', name: 'web' }, text: 'no\u001b[31m', file: 'a.yaml', line: 3 },
  ],
  stale: false,
}

/** Starts a kas that answers as the test says. */
async function start(t: Test) {
  const asked: string[] = []
  const state = { status: 200, body: JSON.stringify({ sources: [source] }) as string, onAsked: () => {} }
  const { io, printed } = await startKasCli(t, (request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`)
    response.statusCode = state.status
    response.end(state.body)
    state.onAsked()
  })
  return { asked, state, io, printed }
}

t.test('a line for each source, and what is wrong with its objects', async (t) => {
  const { asked, io, printed } = await start(t)
  t.equal(await runCli(['gitops', 'status'], io), 1)
  t.strictSame(asked, ['GET /k8s-proxy/gitops/state Bearer pat:42:secret'])
  t.equal(
    printed.out,
    `SOURCE  REF  PHASE     COMMIT    WANTED    OBJECTS  FAILED  DRIFT  HEALTH  APPLIED  COMPARED
42-7    -    APPLYING  aaaaaaaa  bbbbbbbb  23/40    1       ?      ?       -        -
42-7: APPLYING
  Service shop/web: no?[31m (a.yaml:3)
`,
  )
  await runCli(['gitops', 'status', '--agent', '43'], io)
  t.match(asked.at(-1), 'Bearer pat:43:secret')
})

t.test('it exits with 0 where each source is in the cluster at the head of its ref, and nowhere else', async (t) => {
  const { state, io } = await start(t)
  const synced = { ...source, phase: 'SYNCED', commit: 'b'.repeat(40), trouble: [] }
  const exit = async (answer: object) => {
    state.body = JSON.stringify(answer)
    return await runCli(['gitops', 'status'], io)
  }
  t.equal(await exit({ sources: [synced] }), 0)
  const counts = { objects: 1, applied: 0, unchanged: 1, failed: 0, waiting: 0 }
  const paused = { ...synced, phase: 'PAUSED', counts }
  t.equal(await exit({ sources: [paused] }), 0)
  t.equal(await exit({ sources: [{ ...paused, counts: { ...counts, failed: 1 } }] }), 1)
  t.equal(await exit({ sources: [{ ...paused, counts: { ...counts, waiting: 1 } }] }), 1)
  t.equal(await exit({ sources: [{ ...paused, plan: 'p' }] }), 1)
  t.equal(await exit({ sources: [synced], cut: true }), 1, 'some are not shown')
  t.equal(await exit({ sources: [{ ...synced, phase: 'KEPT', commit: '', wanted: '' }] }), 0)
  t.equal(await exit({ sources: [synced, { ...synced, stale: true }] }), 1)
  t.equal(await exit({ sources: [{ ...synced, commit: 'a'.repeat(40) }] }), 1)
  t.equal(await exit({ sources: [{ ...synced, phase: 'PAUSED', commit: 'a' }] }), 1)
  for (const phase of [
    'WAITING',
    'APPLYING',
    'PRUNING',
    'FAILING',
    'REFUSED',
    'APPROVAL',
    'NOT_READY',
    'REMOVING',
    'x',
  ])
    t.equal(await exit({ sources: [synced, { ...synced, phase }] }), 1, phase)
  t.equal(await exit({ sources: [synced], configuration: { problem: 'gitops.x: this key is not known' } }), 1)
  t.equal(await exit({ sources: [], agent: 'connected', configuration: { commit: 'c' } }), 0)
  t.equal(await exit({ sources: [], agent: 'connected', configuration: { commit: '' } }), 1, 'none could be read')
  t.equal(await exit({ sources: [], agent: 'connected' }), 1, 'its file was not read')
  t.equal(await exit({ sources: [] }), 1, 'an older kas says no more')
  t.equal(await exit({ sources: [], agent: 'absent' }), 1)
  t.equal(await exit({ sources: [], agent: 'stock' }), 3)
  t.equal(await exit({ sources: [{ ...synced, phase: 'NOT_READY' }], agent: 'stock' }), 3)
})

t.test('rows by name, with ref and ages; what waits, why, and the line that approves it', async (t) => {
  const { state, io, printed } = await start(t)
  const key = { kind: 'Namespace', namespace: '', name: 'shop' }
  const named = {
    ...source,
    project: 'platform/shop',
    name: 'web',
    ref: 'branch main',
    phase: 'APPROVAL',
    trouble: [],
    plan: 'abc',
    leaving: [{ key, code: 'pruneConfirm', text: 'prune_confirm: Namespace; with it go 1 Secret: Secret a' }],
    kept: [{ key: { ...key, kind: 'Secret', namespace: 'shop', name: 'b' }, code: 'neverPrune', text: 'never' }],
    next: 'kubectl annotate gitsync 42-7-web -n agentk agent.gitlab.com/approve=abc',
    age_ms: 1000,
    at_ms: '1000000',
    applied_at_ms: '400000',
    compared_at_ms: '1000000',
    drift_mode: 'correct',
  }
  const other = { ...source, source: '42-8', project: 'a/b', phase: 'SYNCED', trouble: [] }
  state.body = JSON.stringify({ sources: [named, other], agent: 'connected', configuration: {} })
  await runCli(['gitops', 'status'], io)
  t.equal(
    printed.out,
    `SOURCE               REF          PHASE     COMMIT    WANTED    OBJECTS  FAILED  DRIFT  HEALTH  APPLIED  COMPARED
a/b                  -            SYNCED    aaaaaaaa  bbbbbbbb  23/40    1       ?      ?       -        -
platform/shop (web)  branch main  APPROVAL  aaaaaaaa  bbbbbbbb  23/40    1       0      ?       10m      1s
platform/shop (web): APPROVAL: waits for approval
  Namespace shop: would be deleted: prune_confirm: Namespace; with it go 1 Secret: Secret a
  Secret shop/b: stays: never
  next: kubectl annotate gitsync 42-7-web -n agentk agent.gitlab.com/approve=abc
`,
  )
})

t.test('what was changed in the cluster, by whom, and what follows', async (t) => {
  const { state, io, printed } = await start(t)
  const object = (name: string, given: object) => ({
    key: { kind: 'Deployment', namespace: 'shop', name },
    kind: 'drifted',
    deleted: false,
    path: ['.spec.replicas'],
    more_paths: 0,
    manager: 'kubectl-edit',
    operation: 'Update',
    changed_at_ms: '990000',
    since_ms: '990000',
    correct_at_ms: '0',
    left: '',
    hold_until_ms: '0',
    text: '',
    file: 'web.yaml',
    line: 1,
    ...given,
  })
  const drifted = [
    object('a', { correct_at_ms: '1290000' }),
    object('b', { left: 'mode', path: ['.spec.paused', '.spec.replicas'], more_paths: 3 }),
    object('c', { deleted: true, path: [], manager: '', changed_at_ms: '0', correct_at_ms: '1009000' }),
    object('d', { left: 'hold', hold_until_ms: '8200000' }),
    object('e', { left: 'fight', manager: 'x\u001b[31m' }),
    object('f', { left: 'paused', path: [], more_paths: 0, text: 'the webhook is down' }),
    object('g', { kind: 'not_compared', path: [], text: 'admission webhook "x" is down' }),
    object('h', { kind: 'would_change' }),
    object('i', { left: 'added' }),
  ]
  const counts = { ...source.counts, drifted: 8, not_compared: 1, would_change: 1 }
  const times = { age_ms: 1000, at_ms: '1000000', compared_at_ms: '1000000' }
  const whole = {
    ...source,
    phase: 'SYNCED',
    commit: source.wanted,
    trouble: [],
    ...times,
    drift_mode: 'report',
    counts,
    drifted,
  }
  state.body = JSON.stringify({ sources: [whole], agent: 'connected', configuration: {} })
  t.equal(await runCli(['gitops', 'status'], io), 1)
  const [head, row, ...lines] = printed.out.split('\n')
  t.match(head, /FAILED {2}DRIFT {2}HEALTH {2}APPLIED/)
  t.match(row, / 8\? /)
  t.strictSame(lines, [
    '42-7: SYNCED',
    '  Deployment shop/a: changed in the cluster: .spec.replicas, by kubectl-edit (Update), 11s ago; set back in 4m',
    '  Deployment shop/b: changed in the cluster: .spec.paused, .spec.replicas, 3 more fields, by kubectl-edit (Update), 11s ago; stays: drift mode report',
    '  Deployment shop/c: deleted in the cluster, by whom is not known (see the audit log of the API server); set back in 8s',
    '  Deployment shop/d: changed in the cluster: .spec.replicas, by kubectl-edit (Update), 11s ago; stays for 119m, as its annotation asks',
    '  Deployment shop/e: changed in the cluster: .spec.replicas, by x?[31m (Update), 11s ago; stays: x?[31m has changed it back three times',
    '  Deployment shop/f: changed in the cluster, and cannot be compared: the webhook is down, by kubectl-edit (Update), 11s ago; stays while the source is paused',
    '  Deployment shop/g: cannot be compared with Git: admission webhook "x" is down',
    '  Deployment shop/h: an apply would change .spec.replicas: an admission webhook came later',
    '  Deployment shop/i: changed in the cluster: .spec.replicas, by kubectl-edit (Update), 11s ago; stays: the source does not set added_by',
    '  and 1 more objects that differ from Git',
    '',
  ])
})

t.test('where there is no source, why', async (t) => {
  const { state, io, printed } = await start(t)
  const shown = async (answer: object) => {
    printed.out = ''
    state.body = JSON.stringify({ sources: [], ...answer })
    await runCli(['gitops', 'status'], io)
    return printed.out
  }
  t.equal(await shown({ agent: 'stock' }), 'agent 42 is GitLab’s own: it reports no status of its sources\n')
  t.match(await shown({ agent: 'absent' }), 'no pod of agent 42 is connected')
  const configuration = { commit: 'c' }
  t.equal(await shown({ agent: 'connected', configuration }), 'the configuration of agent 42 names no source\n')
  t.equal(await shown({}), 'kas knows of no source of agent 42\n')
  t.match(
    await shown({ agent: 'connected', configuration: { problem: 'gitops.yaml: line 3: x', next: 'mend the file' } }),
    'the agent’s file: REFUSED: gitops.yaml: line 3: x\n  next: mend the file\n',
  )
})

t.test('a state that is none is refused in one sentence', async (t) => {
  const { state, io, printed } = await start(t)
  const withSource = (more: object) => JSON.stringify({ sources: [{ ...source, ...more }] })
  const wrong: [body: string, said: string][] = [
    ['null', 'it is not of the form of an answer'],
    ['no JSON', 'it is no JSON'],
    ['{}', 'sources is missing or wrong'],
    ['{"sources":[null]}', 'sources.0 is missing or wrong'],
    [withSource({ trouble: undefined }), 'sources.0.trouble is missing or wrong'],
    [withSource({ trouble: [{}] }), 'sources.0.trouble.0.text is missing or wrong'],
    [withSource({ commit: 7 }), 'sources.0.commit is missing or wrong'],
    [withSource({ phase: 'x'.repeat(3000) }), 'sources.0.phase is missing or wrong'],
    [withSource({ counts: { objects: '1' } }), 'sources.0.counts.objects is missing or wrong'],
    [`{"sources":${'['.repeat(100_000)}`, 'it is nested more than 32 deep'],
    [withSource({ problem: 'x'.repeat(5_000_000) }), 'it has more than 4194304 bytes'],
  ]
  for (const [body, said] of wrong) {
    state.body = body
    printed.err = ''
    t.equal(await runCli(['gitops', 'status'], io), 1, body.slice(0, 100))
    t.equal(printed.err, `kas gitops: what the agent says cannot be used: ${said}\n`)
  }
  state.body = withSource({ problem: '[{"\\"{['.repeat(100) })
  t.equal(await runCli(['gitops', 'status', '-o', 'json'], io), 1)
  t.match(JSON.parse(printed.out), { items: [{}] }, 'brackets in a text are text')
})

t.test('a source that is not known is answered with the nearest one that is', async (t) => {
  const { io, printed } = await start(t)
  t.equal(await runCli(['gitops', 'forget', '42-8'], io), 1)
  t.match(printed.err, /no source 42-8 is known: kas gitops status shows those that are\. Did you mean 42-7\?/)
})

t.test('what goes wrong is said', async (t) => {
  const { state, io, printed } = await start(t)
  state.status = 401
  state.body = JSON.stringify({ kind: 'Status', message: 'GitLab Agent Server: Unauthorized' })
  t.equal(await runCli(['gitops', 'status'], io), 1)
  t.match(printed.err, 'kas answered 401: GitLab Agent Server: Unauthorized')
  state.body = 'no JSON'
  t.equal(await runCli(['gitops', 'status'], io), 1)
  t.match(
    printed.err,
    'is not kas, and asks for a login of its own: let it pass requests with a token on to kas. It answered 401: no JSON',
  )
  for (const args of [
    ['gitops'],
    ['gitops', 'stat'],
    ['gitops', 'status', '-o', 'xml'],
    ['gitops', 'status', '-o', 'name', '--watch'],
    ['gitops', 'status', '--x'],
  ]) {
    t.equal(await runCli(args, io), 2, args.join(' '))
  }
  t.equal(await runCli(['gitops', '--help'], io), 0)
  t.match(printed.out, /^usage: kas gitops status [\s\S]*^usage: kas gitops forget SOURCE /m)
  t.equal(await runCli(['gitops', 'status'], { ...io, env: {} }), 2)
})

t.test('a gate asks until the time is over, and has exit codes of its own', async (t) => {
  const { state, io, printed, asked } = await start(t)
  const head = 'b'.repeat(40)
  const clock = new ManualClock()
  let answers: object[] = []
  const polled = { commit: head, age_ms: 0 }
  const configuration = { commit: 'c', polled: { commit: 'c', age_ms: 0 } }
  const synced = { ...source, phase: 'SYNCED', commit: head, counts: undefined, trouble: [], polled }
  const answer = (more: object = {}) => ({ sources: [{ ...synced, ...more }], agent: 'connected', configuration })
  state.onAsked = () => {
    const [, next] = answers.splice(0, answers.length > 1 ? 1 : 0)
    state.body = JSON.stringify(next ?? answers[0])
  }
  const run = async (...args: string[]) => {
    printed.err = ''
    asked.length = 0
    state.body = JSON.stringify(answers[0])
    const ticking = setInterval(() => clock.advance(20), 1) // ends all pauses
    try {
      return await gitopsStatus(['status', ...args], { io: printableIo(io), clock })
    } finally {
      clearInterval(ticking)
    }
  }
  answers = [answer({ phase: 'APPLYING', commit: 'a' }), answer({ phase: 'APPLYING' }), answer()]
  t.equal(await run('--commit', head, '--wait', '5m'), 0)
  t.equal(asked.length, 3)
  t.match(asked[0], 'GET /k8s-proxy/gitops/state?fresh=true ')
  t.match(printed.err, /kas: 42-7: APPLYING\n/)
  answers = [answer({ phase: 'APPLYING' })]
  t.equal(await run('--wait', '10s'), 3)
  t.ok(asked.length > 2)
  t.match(printed.err, /kas gitops: 42-7: APPLYING\n$/, 'the last words are the reason')
  t.equal(await run('--commit', head), 3, 'without a time a poll is waited for, and no more')
  t.equal(asked.length, 1)
  const isPaused = /^kas: 42-7 is paused, and applies no commit: kas gitops resume 42-7 ends the pause$/m
  const unpolled = { phase: 'PAUSED', polled: { commit: head, age_ms: 9_000_000 } }
  answers = [answer(unpolled), answer({ phase: 'PAUSED' }), answer()]
  t.equal(await run('--commit', head, '--wait', '5m'), 0, 'somebody resumes it')
  t.equal(printed.err.match(new RegExp(isPaused, 'gm'))?.length, 1, printed.err)
  answers = [answer({ phase: 'PAUSED' })]
  t.equal(await run('--commit', head, '--wait', '10s'), 3, 'nobody does')
  t.match(printed.err, isPaused)
  answers = [answer({ phase: 'FAILING', problem: 'x' })]
  t.equal(await run('--commit', head, '--wait', '5m'), 4)
  t.ok(asked.length > 3, 'it fails for 5 s')
  answers = [answer({ polled: { commit: head, age_ms: 9_000_000 } })]
  t.equal(await run('--fresh'), 1, 'no poll came: it is not 0')
  t.equal(await run('--commit', head), 5)
  answers = [answer()]
  t.equal(await run('--fresh'), 0)
  answers = [{ sources: [], agent: 'stock' }]
  t.equal(await run('--fresh'), 3)
  t.equal(await run('--wait', '1m'), 5)
  answers = [{ sources: [null] }]
  t.equal(await run('--wait', '1m'), 5, 'an answer that cannot be used')
  state.status = 401
  state.body = JSON.stringify({ kind: 'Status', message: 'GitLab Agent Server: Unauthorized' })
  state.onAsked = () => undefined
  await t.rejects(gitopsStatus(['status', '--wait', '1m'], { io: printableIo(io), clock }), { name: 'Unreached' })
  for (const args of [
    '--commit x',
    '--commit',
    '--commit=',
    '--wait 0s',
    '--wait 25h',
    '--wait x',
    '--source s',
    '--fresh -w',
  ])
    t.equal(await runCli(['gitops', 'status', ...args.split(' ')], io), 2, args)
})

t.test('a gate that does not reach kas ends at once with 5', async (t) => {
  const { io, printed } = await start(t)
  const folder = t.testdir({
    config: await readFile(io.env.KUBECONFIG, 'utf8').then((text) => text.replace(/http:/, 'https:')),
  })
  const env = { KUBECONFIG: join(folder, 'config') }
  t.equal(await runCli(['gitops', 'status', '--commit', 'a'.repeat(40), '--wait', '5m'], { ...io, env }), 5)
  t.match(printed.err, /kas gitops: no TLS is spoken at /)
})
