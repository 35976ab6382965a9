import { rm } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { hostileText, steering } from '../../../../../../support/hostile-texts.ts'
import { startKasCli } from '../../../../../../support/kas-cli.ts'
import { GitWorkTree } from '../../../../../../support/work-tree.ts'
import { gitops } from '../../../../cli/usual-answers.ts'
import { answer, changed, type End, play, type Shown, source } from './played-diff.ts'

t.test('it sends what Git tracks as a tar, and prints what would change', async (t) => {
  const { code, out, err, asked, tree } = await play(t, { answers: { '42-7': { changed: 1 } }, objects: [changed] })
  t.equal(code, 1)
  t.equal(err, '')
  t.match(asked, [
    {
      method: 'POST',
      url: '/k8s-proxy/gitops/diff?source=42-7&format=ndjson',
      headers: { 'content-type': 'application/x-tar', authorization: 'Bearer pat:42:secret' },
      files: ['a.yaml'],
    },
  ])
  t.match(out, `source 42-7: compared with commit ${await tree.git('rev-parse', 'HEAD')}\n`)
  t.match(out, /^changed: 1\n {2}Deployment shop\/web {2}a\.yaml:3\n {4}\.spec\.replicas$/m)
})

t.test('exit codes: nothing, changes, failing, not compared; --no-exit-code', async (t) => {
  const cases: [End, code: number, without: number][] = [
    [{}, 0, 0],
    [{ staying: 1, drifted: 2 }, 0, 0],
    ...(['created', 'changed', 'adopted', 'recreated', 'deleted', 'waiting'] as const).map(
      (name): [End, number, number] => [{ [name]: 1 }, 1, 0],
    ),
    [{ failing: 1, changed: 1 }, 4, 4],
    [{ refusal: { text: 'it is broken', file: 'a.yaml', line: 1 } }, 4, 4],
    [{ problem: 'the agent is older' }, 5, 5],
    [{ objects: 2, notCompared: 2 }, 5, 5],
  ]
  for (const [end, code, without] of cases) {
    const answers = { '42-7': end }
    t.equal((await play(t, { answers })).code, code, JSON.stringify(end))
    t.equal((await play(t, { answers, args: ['--no-exit-code'] })).code, without, JSON.stringify(end))
  }
})

t.test('all sources of the project are asked, and the worst of them is the exit code', async (t) => {
  const sources = [
    source('42-7'),
    source('42-8'),
    source('42-9', { project: 'platform/other' }),
    source('42-6', { phase: 'KEPT' }),
  ]
  const answers = { '42-7': { failing: 1 }, '42-8': { problem: 'no' }, '42-9': { changed: 1 } }
  const both = await play(t, { sources, answers })
  t.equal(both.code, 5)
  t.match(
    both.asked.map(({ url }) => url),
    [/source=42-7&/, /source=42-8&/],
  )
  t.match(both.out, /source 42-7[\s\S]*\n\nsource 42-8/)
  const named = await play(t, { sources, answers, args: ['--source', '42-9', '--source', 'platform/other'] })
  t.equal(named.code, 1)
  t.equal(named.asked.length, 1, 'a source that is named twice is asked once')
  const failing = await play(t, { sources, answers, args: ['--source', '42-7', '--source', '42-9'] })
  t.equal(failing.code, 4)
})

t.test('formats: NDJSON, Markdown, and one report with the sum of all sources', async (t) => {
  const sources = [source('42-7'), source('42-8')]
  const answers = { '42-7': { created: 2, deleted: 1 }, '42-8': { changed: 1, adopted: 1, waiting: 3 } }
  const report = await play(t, { sources, answers, args: ['--format', 'terraform'] })
  t.strictSame(JSON.parse(report.out), { create: 2, update: 2, delete: 4 })
  const lines = (await play(t, { sources, answers, args: ['--format', 'ndjson'] })).out.trim().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { type: 'end', source: '42-7', exit_code: 1 },
      { type: 'end', source: '42-8', exit_code: 1 },
    ],
  )
  t.match((await play(t, { sources, answers, args: ['--format', 'markdown'] })).out, /\*\*Preview\*\*[\s\S]*42-8/)
  const values = await play(t, { args: ['--values'] })
  t.match(values.asked, [{ url: '/k8s-proxy/gitops/diff?source=42-7&format=ndjson&values=true' }])
})

t.test('no report is printed if a source was not compared, or fails', async (t) => {
  const answers = { '42-7': { failing: 1, changed: 1 } }
  const failing = await play(t, { answers, args: ['--format', 'terraform'] })
  t.strictSame([failing.code, failing.out], [4, ''])
  t.equal(failing.err, 'kas diff: source 42-7: 1 fails, 1 changed; 1 of 1 manifest compared.\n')
  const serve = (_: IncomingMessage, response: ServerResponse) => {
    response.writeHead(503, { 'kas-delivery': 'none' }).end('{"kind":"Status","message":"GitLab Agent Server: busy"}')
  }
  const { code, out, err } = await play(t, { serve, args: ['--format', 'terraform'] })
  t.strictSame([code, out], [5, ''])
  t.match(err, /^kas diff: source 42-7: .*busy$/m)
  const lines = await play(t, { serve, args: ['--format', 'ndjson'] })
  t.match(JSON.parse(lines.out), { type: 'end', source: '42-7', exit_code: 5, problem: /busy/ })
})

t.test('the first line tells that the branch lacks the commit in the cluster', async (t) => {
  const answers = { '42-7': { commit: 'f'.repeat(40) } }
  const line = 'this branch lacks commit ffffffff, which is in the cluster: merge or rebase first'
  const text = await play(t, { answers })
  t.equal(text.out.split('\n')[0], line)
  t.equal(text.code, 0)
  t.equal((await play(t, { answers, args: ['--format', 'markdown'] })).out.split('\n')[0], `**${line}**`)
  const report = await play(t, { answers, args: ['--format', 'terraform'] })
  t.equal(report.err, `kas diff: source 42-7: ${line}\n`)
  t.same(JSON.parse(report.out), { create: 0, update: 0, delete: 0 })
})

t.test('what is not committed counts, and it is said', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a' })
  await tree.write({ a: 'b', c: 'c' })
  const { io, printed, run } = await startKasCli(t, (request, response) => {
    if (request.method === 'POST') return void request.resume().on('end', () => response.end(answer('42-7', {})))
    response.end(JSON.stringify({ ...gitops, sources: [source('42-7')] }))
  })
  Object.assign(io.env, { PATH: process.env.PATH })
  t.equal(await run('diff', tree.path, '--source', '42-7'), 0)
  t.equal(
    printed.err,
    'kas diff: 1 file has changes that are not committed: the preview includes them\nkas diff: 1 file is not tracked by Git: the preview leaves it out until git add\n',
  )
})

t.test('an older kas, GitLab’s own kas, its agent, no agent: the sentence, and exit code 5', async (t) => {
  const status = (message: string) => JSON.stringify({ kind: 'Status', apiVersion: 'v1', message })
  const older: [code: number, headers: Record<string, string>, body: string][] = [
    [405, {}, status('GitLab Agent Server: method POST is not allowed')],
    [404, { 'audit-id': 'a' }, '404 page not found'],
    [404, {}, status('the server could not find the requested resource')],
  ]
  for (const [code, headers, body] of older) {
    const serve = (_: IncomingMessage, response: ServerResponse) => void response.writeHead(code, headers).end(body)
    const { code: exit, err, out } = await play(t, { serve })
    t.equal(exit, 5)
    t.match(err, /^kas diff: source 42-7: kas at .* is older than this command, and makes no previews: update kas$/m)
    t.equal(out, '')
  }
  const stock = await play(t, { state: { agent: 'stock' } })
  t.strictSame(
    [stock.code, stock.err],
    [5, 'kas diff: the agent is GitLab’s own: it makes no previews. Install agentk of kas\n'],
  )
  const absent = await play(t, { state: { agent: 'absent', away: { text: 'no pod is connected' } } })
  t.strictSame([absent.code, absent.err], [5, 'kas diff: no pod is connected\n'])
  const olderAgent = (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(501).end(status('GitLab Agent Server: agentk is older than kas: update agentk'))
  t.match(await play(t, { serve: olderAgent }), { code: 5, err: /update agentk/ })
})

t.test('files that kas refuses, as it would those of a commit: exit code 4', async (t) => {
  const message = 'GitLab Agent Server: GitOps: manifest file: "a.yaml": it has 6000000 bytes, allowed: 5242880'
  const serve = (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(422, { 'kas-delivery': 'x' }).end(JSON.stringify({ kind: 'Status', message }))
  for (const args of [[], ['--no-exit-code'], ['--format', 'markdown'], ['--format', 'ndjson']]) {
    const { code, out } = await play(t, { serve, args })
    t.equal(code, 4)
    t.match(out, /it has 6000000 bytes, allowed: 5242880/)
  }
  const report = await play(t, { serve, args: ['--format', 'terraform'] })
  t.match(report, { code: 4, out: '', err: /source 42-7: The commit would be refused: .*allowed: 5242880/ })
})

t.test('a proxy that takes no long body is named, and kas is not said to be older', async (t) => {
  const serve = (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(413, { server: 'nginx' }).end('<title>413 Request Entity Too Large</title>')
  const { code, err } = await play(t, { serve })
  t.equal(code, 5)
  t.match(err, /a proxy in front of kas at .* takes no body of this length: raise its limit/)
  t.notMatch(err, /makes no previews/)
})

t.test(
  'a caller who may not preview the source is told what to set, and not that the agent lets nobody in',
  async (t) => {
    const message =
      'GitLab Agent Server: forbidden: changes of source 42-7 are previewed by jobs and users of project 7'
    const serve = (_: IncomingMessage, response: ServerResponse) =>
      void response.writeHead(403, { 'kas-delivery': 'x' }).end(JSON.stringify({ kind: 'Status', message }))
    const { code, err } = await play(t, { serve })
    t.strictSame([code, err], [5, `kas diff: source 42-7: kas answered 403: ${message}\n`])
  },
)

t.test('the folder names the repository, also in a hook of another one', async (t) => {
  const other = await GitWorkTree.create(t, { 'other.yaml': 'o' })
  const env = { GIT_DIR: join(other.path, '.git'), GIT_WORK_TREE: other.path, GIT_INDEX_FILE: '.git/index' }
  const { code, asked, err } = await play(t, { env })
  t.strictSame([code, asked[0]?.files, err], [0, ['a.yaml'], ''])
})

t.test('bad input: a body that ends early, lines that are none, another source', async (t) => {
  const whole = answer('42-7', { changed: 1 }, [changed])
  const [object = '', end = ''] = whole.split('\n')
  const bodies: [body: string, said: RegExp][] = [
    [`${object}\n`, /the preview has no end/],
    [object.slice(0, 40), /line 1 is no JSON/],
    [`${object}\n${end}\n${object}\n`, /line 3 comes after the end/],
    [answer('42-8', {}), /it is about another source/],
    ['{"kind":"Status","message":"no"}', /the preview has no end/],
    [`{"type":"end","source":"42-7","objects":"secret"}`, /line 1 is no end of a preview/],
  ]
  for (const [body, said] of bodies) {
    const { code, err, out } = await play(t, { serve: (_, response) => void response.end(body) })
    t.equal(code, 5, body)
    t.match(err, said)
    t.notMatch(err, /secret/)
    t.equal(out, '')
  }
  const cut = await play(t, {
    serve: (request, response) => {
      response.writeHead(200, { 'content-length': String(whole.length) }).write(object)
      setImmediate(() => request.socket.destroy())
    },
  })
  t.match(cut, { code: 5, out: '', err: /^kas diff: source 42-7: / })
})

t.test('an answer that comes before all is sent is read', async (t) => {
  const files = { 'a.yaml': 'x'.repeat(20_000_000) }
  const message = 'GitLab Agent Server: a.yaml: the file is too large'
  const { code, err } = await play(t, {
    files,
    serve: (request, response) => {
      response.writeHead(400).end(JSON.stringify({ kind: 'Status', message }))
      request.resume() // as kas does: it reads on until the client has the answer
    },
  })
  t.equal(code, 5)
  t.match(err, /a\.yaml: the file is too large/)
})

t.test('bad input: no repository, a project without a source, unknown sources, wrong options', async (t) => {
  const { printed, run, io } = await startKasCli(t, (_, response) => {
    response.end(JSON.stringify({ ...gitops, sources: [source('42-7'), source('42-8')] }))
  })
  Object.assign(io.env, { PATH: process.env.PATH })
  const tree = await GitWorkTree.create(t, { a: 'a' })
  const lines: [args: string[], code: number, said: RegExp][] = [
    [['/'], 2, /^kas diff: \/ is in no work tree of Git/m],
    [
      [tree.path],
      2,
      /no source of the agent belongs to this repository, which has no remote origin\. Name one with --source/,
    ],
    [[tree.path, '--source', 'none'], 5, /^kas diff: no source none is known/m],
    [[tree.path, '--source', ''], 2, /--source is empty/],
    [[tree.path, '--format', 'json'], 2, /--format json: allowed is one of text, ndjson, markdown, terraform/],
    [[tree.path, '--format', ''], 2, /--format is empty/],
    [[tree.path, '-o', 'json'], 2, /Unknown option '-o'\. the format is named by --format/],
    [['a', 'b'], 2, /name at most one folder/],
  ]
  for (const [args, code, said] of lines) {
    printed.err = ''
    t.equal(await run('diff', ...args), code, args.join(' '))
    t.match(printed.err, said)
  }
  await tree.git('remote', 'add', 'origin', 'https://gitlab.example.com/platform/other.git')
  t.equal(await run('diff', tree.path), 2)
  t.match(
    printed.err,
    'no source of the agent belongs to platform/other. Name one with --source. The agent has: platform/shop, platform/shop',
  )
  await rm(join(tree.path, '.git'), { recursive: true })
  t.equal(await run('diff', tree.path), 2)
})

t.test('without git on the PATH it is not compared', async (t) => {
  const { code, err } = await play(t, { env: { PATH: '/none' } })
  t.strictSame([code, err], [5, 'kas diff: git cannot be run: spawn git ENOENT\n'])
})

t.test('a GitLab below a path of its own: the longest path counts', async (t) => {
  const sources = [source('42-7'), source('42-8', { project: 'shop' }), source('42-9', { project: 'latform/shop' })]
  const tree = await GitWorkTree.create(t, { a: 'a' })
  await tree.git('remote', 'add', 'origin', 'https://example.com/gitlab/Platform/Shop.git')
  const asked: string[] = []
  const { io, run } = await startKasCli(t, (request, response) => {
    if (request.method !== 'POST') return void response.end(JSON.stringify({ ...gitops, sources }))
    asked.push(request.url ?? '')
    request.resume().on('end', () => response.end(answer('42-7', {})))
  })
  Object.assign(io.env, { PATH: process.env.PATH })
  t.equal(await run('diff', tree.path), 0)
  t.strictSame(asked, ['/k8s-proxy/gitops/diff?source=42-7&format=ndjson'])
})

t.test('bad input: terminal escapes in names, values, errors and paths steer no terminal', async (t) => {
  const text = hostileText.replaceAll(/\p{Surrogate}/gu, '') // protobuf has no halves of characters
  const field = { path: text, kind: 'changed', before: text, after: text, manager: text, operation: text, rule: text }
  const hostile: Shown = {
    key: { group: text, version: text, kind: text, namespace: text, name: text },
    action: 'changed',
    file: text,
    line: 1,
    field: [field],
    ignored: [field],
    text,
    alsoDeleted: [text],
    alsoDeletedText: text,
  }
  const end: End = { changed: 1, problem: text, refusal: { text, file: text, line: 1 } }
  for (const format of ['text', 'markdown', 'ndjson', 'terraform']) {
    const objects = [hostile, { ...hostile, action: text }]
    const { code, out, err } = await play(t, { answers: { '42-7': end }, objects, args: ['--format', format] })
    t.strictSame([...steering(out), ...steering(err)], [], format)
    t.equal(code, 4)
    if (format === 'ndjson') t.equal(JSON.parse(out.split('\n')[0] ?? '').text, text)
  }
  const serve = (_: IncomingMessage, response: ServerResponse) =>
    void response.writeHead(400).end(JSON.stringify({ kind: 'Status', message: `GitLab Agent Server: ${text}` }))
  const refused = await play(t, { serve })
  t.strictSame([refused.code, steering(refused.err)], [5, []])
})

t.test('the help names options and exit codes', async (t) => {
  const { printed, run } = await startKasCli(t, (_, response) => response.end())
  t.equal(await run('diff', '--help'), 0)
  for (const word of ['DIR', '--source', '--format', '--values', '--note', '--no-exit-code', '--kubeconfig', '--agent'])
    t.match(printed.out, word)
  t.match(printed.out, /exit code: 0 nothing would change, 1 there are changes, 2 the command line is wrong,\n/)
  t.ok(printed.out.split('\n').every((line) => line.length <= 132))
})

t.test('a repository without a project of GitLab is compared with the only source of the agent', async (t) => {
  const asked: string[] = []
  const { printed, run, io } = await startKasCli(t, (request, response) => {
    if (request.method === 'POST') {
      asked.push(request.url ?? '')
      response.writeHead(200, { 'content-type': 'application/x-ndjson' })
      response.end('{"type":"end","source":"42-7","objects":1}\n')
    } else response.end(JSON.stringify({ ...gitops, sources: [source('42-7')] }))
  })
  Object.assign(io.env, { PATH: process.env.PATH })
  const tree = await GitWorkTree.create(t, { a: 'a' })
  t.equal(await run('diff', tree.path), 0, printed.err)
  await tree.git('remote', 'add', 'origin', '/srv/git/any.git')
  t.equal(await run('diff', tree.path), 0, printed.err)
  t.equal(asked.length, 2)
  t.match(asked[0], 'source=42-7')
})
