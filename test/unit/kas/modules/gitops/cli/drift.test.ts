import t, { type Test } from 'tap'
import { startKasCli } from '../../../../../support/kas-cli.ts'
import { diff, gitops } from '../../../cli/usual-answers.ts'

type Diff = Partial<typeof diff>

/** Runs `kas gitops drift` against a kas that answers with this. */
async function drift(t: Test, given: Diff, ...more: string[]) {
  const asked: string[] = []
  const { printed, run } = await startKasCli(t, ({ url = '' }, response) => {
    asked.push(url)
    response.end(JSON.stringify(url.includes('/gitops/diff') ? { ...nothing, ...given } : gitops))
  })
  const code = await run('gitops', 'drift', '42-7', ...more)
  return { code, asked, ...printed }
}

const nothing = { ...diff, scan: false, differing: [], compared: 0, withheld: 0, cut: 0, problem: '' }
const [object] = diff.differing as [(typeof diff.differing)[number]]
const of = (more: object, field = object.field) => [
  { ...object, object: { ...object.object, ...more }, field, more: 0 },
]
const image = { ...object.field[0], path: '.spec.image', before: '"a:1"', after: '"a:2"', secret_key: '' }
const noted = { left: '', hold_until_ms: '0', text: '' }

t.test('each field has its value in Git and in the cluster, and who changed it', async (t) => {
  const { code, out, asked } = await drift(t, {
    differing: of(noted, [image] as typeof object.field) as Diff['differing'] & object,
  })
  t.equal(code, 1)
  t.equal(asked.at(-1), '/k8s-proxy/gitops/diff?source=42-7&scan=false')
  const [line, ...rest] = out.split('\n')
  t.equal(
    line,
    'Service shop/web: changed in the cluster: .spec.image, by kubectl-edit (Update), 10s ago; set back in 4m (a.yaml:3)',
  )
  t.strictSame(rest.slice(0, 3), [
    '  .spec.image, by kubectl-edit (Update)',
    '    Git:     "a:1"',
    '    cluster: "a:2"',
  ])
})

t.test('a Secret shows the name of a key and no value; a value that is nowhere is none', async (t) => {
  const { out } = await drift(t, { differing: of(noted) as never })
  t.match(out, /^ {2}\.data… token, by kubectl-edit \(Update\)\n {4}Git: {5}\*\*\*\n {4}cluster: \*\*\*$/m)
  const added = [{ ...image, before: undefined }]
  t.match((await drift(t, { differing: of(noted, added as never) as never })).out, /Git: {5}none\n/)
})

t.test('what a rule leaves to others is named with the rule', async (t) => {
  const { out } = await drift(t, { differing: of(noted) as never })
  t.match(out, /^ {2}\.spec\.replicas, in another order; left to others: Deployment \.spec\.replicas$/m)
  t.match(out, /^ {2}and 1 more that a rule leaves to others$/m)
})

t.test('without a scan nothing is said to be in order: only what is known', async (t) => {
  const { code, out } = await drift(t, {})
  t.equal(code, 0)
  t.equal(out, 'nothing is known to differ: changes in the cluster are followed; --scan compares each object now\n')
  t.match((await drift(t, { mode: 'none' })).out, /changes are not followed; --scan/)
})

t.test('a scan says that nothing differs only if each object was compared', async (t) => {
  const whole = await drift(t, { scan: true, objects: 9, compared: 9 }, '--scan')
  t.strictSame([whole.code, whole.out], [0, 'compared 9 of 9 objects: nothing differs from Git\n'])
  t.match(whole.asked.at(-1), /scan=true/)
  const part = await drift(t, { scan: true, objects: 9, compared: 8 }, '--scan')
  t.strictSame([part.code, part.out], [5, 'compared 8 of 9 objects; 1 object could not be compared now: try again\n'])
  const hidden = await drift(t, { scan: true, objects: 9, compared: 9, withheld: 1 }, '--scan')
  t.equal(hidden.code, 1)
  t.notMatch(hidden.out, /nothing differs/)
  t.match(hidden.out, /^1 object differ from Git that you may not get$/m)
})

t.test('what is not known is never exit code 0', async (t) => {
  const { code, err, out } = await drift(t, { problem: 'agentk does not follow this source now' })
  t.equal(code, 5)
  t.match(err, /agentk does not follow this source now/)
  t.equal(out, '')
  const unknown = await drift(t, { differing: of({ ...noted, kind: 'not_compared', text: 'denied' }, []) as never })
  t.equal(unknown.code, 5)
  t.match(unknown.out, /cannot be compared with Git: denied/)
  t.equal((await drift(t, { cut: 1 })).code, 1)
})

t.test('bad input: no source, two, an unknown one, and an answer that is none', async (t) => {
  const { printed, run } = await startKasCli(t, ({ url = '' }, response) => {
    response.end(url.includes('/gitops/diff') ? '{"differing":[{}]}' : JSON.stringify(gitops))
  })
  t.equal(await run('gitops', 'drift'), 2)
  t.equal(await run('gitops', 'drift', 'a', 'b'), 2)
  t.match(printed.err, /allowed is one source/)
  t.equal(await run('gitops', 'drift', '42-8'), 5, '1 would say that an object differs')
  t.match(printed.err, /kas gitops: no source 42-8 is known/)
  t.equal(await run('gitops', 'drift', '42-7'), 5)
  t.equal(await run('gitops', 'drift', '--help'), 0)
  t.match(printed.out, /exit code: 0 nothing differs/)
})

t.test('times that no agent can mean end no command, in no format', async (t) => {
  const times = ['9223372036854775807', '-9223372036854775808', '-1', '9999999999999999', '8640000000000001']
  for (const time of times) {
    const of = { ...noted, changed_at_ms: time, since_ms: time, correct_at_ms: time, hold_until_ms: time }
    for (const format of ['table', 'json', 'yaml', 'name']) {
      const args = format === 'table' ? [] : ['-o', format]
      const one = [{ ...object, object: { ...object.object, ...of }, more: 0 }] as never
      t.match(await drift(t, { differing: one }, ...args), { code: 1, err: '' }, `${time} ${format}`)
      t.match(await drift(t, { differing: one, at_ms: time }, ...args), { code: 1, err: '' }, `at ${time} ${format}`)
    }
  }
})

t.test(
  'an older kas hands the question on to the cluster: the command says to update it, and is not known',
  async (t) => {
    const { printed, run } = await startKasCli(t, ({ url = '' }, response) => {
      if (url.includes('/gitops/diff')) response.writeHead(404, { 'audit-id': 'a' }).end('404 page not found')
      else response.end(JSON.stringify(gitops))
    })
    t.equal(await run('gitops', 'drift', '42-7', '--scan'), 5)
    t.match(printed.err, /^kas gitops: kas at 127\.0\.0\.1:\d+ .*is older than this command, .* update kas\n$/)
    t.equal(printed.out, '')
  },
)

t.test('a kas that is not reached, or refuses, is 5 as well', async (t) => {
  for (const status of [401, 403, 500, 503]) {
    const { printed, run } = await startKasCli(t, (_, response) => {
      const body = { kind: 'Status', apiVersion: 'v1', message: 'GitLab Agent Server: no' }
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    })
    t.equal(await run('gitops', 'drift', '42-7'), 5, String(status))
    t.match(printed.err, /^kas gitops: .*kas answered/)
  }
})
