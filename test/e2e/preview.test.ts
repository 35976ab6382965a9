import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { agent, files, replicaFiles } from '../../dev/start/settings.ts'
import { eventually } from '../support/eventually.ts'
import { httpsGet } from '../support/https-get.ts'
import { runKas } from '../support/kas-command.ts'
import { soon, startPreviewGround } from '../support/preview-ground.ts'

/**
 * A change is previewed by the jobs of deploy/gitops-example, merged, and waited for: beside three replicas, an agentk
 * and a real API server. The jobs ask a replica that does not hold the agent, by a job's token.
 */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`

/** Values of a Secret in Git, before and after the change. No output may have them. */
const planted = ['planted-value-before', 'planted-value-after']
const botToken = 'glpat-planted-token-of-the-bot'
/** commits of main before the change: a clone of GitLab's runner has 20 */
const commits = 25

const map = (name: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'shop' }, data: { value } })
const secret = (token: string) =>
  JSON.stringify({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'token', namespace: 'shop' },
    stringData: { token },
  })

/** jobs act as agentk, users as themselves */
const configuration = JSON.stringify({
  ci_access: { projects: [{ id: agent.project.path }] },
  user_access: { access_as: { user: {} }, projects: [{ id: agent.project.path }] },
})

interface Line {
  readonly type: string
  readonly action?: string
  readonly key?: { readonly kind: string; readonly name: string }
  readonly exit_code?: number
  readonly not_compared?: number
}

const linesOf = (ndjson: string): Line[] =>
  ndjson
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
const shownIn = (lines: readonly Line[]) =>
  lines.flatMap(({ action, key }) => (key && action !== 'drifted' ? [`${action} ${key.kind} ${key.name}`] : [])).sort()

t.test('a change is previewed, merged, and waited for', { skip, timeout: 400_000 }, async (t) => {
  const ground = await startPreviewGround(t, { assets, botToken })
  const { job, ada, commit, push, git, kubectl, variables, example, gitlab, sourceId } = ground
  /** everything that anybody could read */
  const printed: string[] = []

  await commit({ [`.gitlab/agents/${agent.name}/config.yaml`]: configuration })
  await commit({ 'manifests/old.yaml': map('old', '1'), 'manifests/token.yaml': secret(planted[0] ?? '') })
  for (let i = 0; i < commits; i++) await commit({})
  const main = await git('rev-parse', 'HEAD')
  await push()
  t.match(await runKas(['gitops', 'wait', '--commit', main, '--timeout', '3m'], job), { code: 0 })

  await git('checkout', '--quiet', '-b', 'change')
  const changed = await commit({
    'manifests/new.yaml': map('new', '1'),
    'manifests/1-page.yaml': map('page', 'changed'),
    'manifests/token.yaml': secret(planted[1] ?? ''),
    'manifests/old.yaml': undefined,
  })
  await push()
  const clone = await ground.jobClone('merge-request', 'change')

  await t.test('with kas: the job log, the report and the note', async (t) => {
    const { code, stdout, stderr, report } = await example.run('preview', clone, variables(changed, 100))
    printed.push(stdout, stderr, report ?? '')
    t.equal(code, 0, stderr)
    t.match(stdout, `compared with commit ${main}`)
    t.notMatch(stdout, /this branch lacks|unknown: /)
    t.match(stdout, /^created: 1\n {2}ConfigMap shop\/new {2}manifests\/new\.yaml:1$/m)
    t.match(stdout, /^changed: 2$/m)
    t.match(stdout, /^deleted: 1\n {2}ConfigMap shop\/old$/m)
    t.strictSame(JSON.parse(report ?? ''), { create: 1, update: 2, delete: 1 })
    t.equal(gitlab.notes.length, 1)
    const marker = `<!-- kas diff agent=${agent.id} source=${sourceId} pipeline=100 -->`
    t.ok(gitlab.notes[0]?.body.startsWith(marker))
    printed.push(gitlab.notes[0]?.body ?? '')
    t.notMatch(printed.join(), 'Open all day', 'no live value without --values')
  })

  await t.test('with curl: the same report', async (t) => {
    const { code, stdout, stderr, report } = await example.run('preview with curl', clone, variables(changed, 100))
    printed.push(stdout, stderr, report ?? '')
    t.equal(code, 0, stderr)
    t.match(stdout, /^created: 1\n {2}ConfigMap shop\/new {2}manifests\/new\.yaml:1$/m)
    t.strictSame(JSON.parse(report ?? ''), { create: 1, update: 2, delete: 1 })
  })

  const preview = async (kubeconfig: string, folder: string, ...more: string[]) => {
    const args = ['diff', folder, '--source', sourceId, '--format', 'ndjson', ...more]
    const answer = await runKas(args, kubeconfig)
    printed.push(answer.stdout, answer.stderr)
    return answer
  }

  await t.test('a caller sees the objects that they may get, with and without rights', async (t) => {
    const none = await eventually(async () => {
      const answer = await preview(ada, clone)
      return answer.code === 5 && answer // the configuration with access_as is known
    }, soon)
    t.strictSame(shownIn(linesOf(none.stdout)), [])
    await kubectl('create', 'role', 'reader', '-n', 'shop', '--verb=get,list', '--resource=configmaps')
    await kubectl('create', 'rolebinding', 'reader', '-n', 'shop', '--role=reader', '--user=gitlab:user:ada')
    const some = await eventually(async () => {
      const answer = await preview(ada, clone, '--values')
      return answer.code === 1 && answer
    }, soon)
    const lines = linesOf(some.stdout)
    t.strictSame(shownIn(lines), ['changed ConfigMap page', 'created ConfigMap new', 'deleted ConfigMap old'])
    t.ok((lines.at(-1)?.not_compared ?? 0) > 0)
    t.match(some.stdout, 'Open all day', 'with --values the live value is shown')
  })

  const shown = await preview(job, clone, '--values')
  t.equal(shown.code, 1)
  t.strictSame(shownIn(linesOf(shown.stdout)), [
    'changed ConfigMap page',
    'changed Secret token',
    'created ConfigMap new',
    'deleted ConfigMap old',
  ])

  await t.test('a change that would be refused ends with 4, by file and line', async (t) => {
    const broken = await ground.jobClone('broken', 'change')
    await writeFile(join(broken, 'manifests/new.yaml'), 'kind: [')
    const { code, stdout, stderr } = await runKas(['diff', broken, '--source', sourceId], job)
    t.equal(code, 4)
    t.match(stdout, /^The commit would be refused: manifests\/new\.yaml:\d+: /m)
    t.match(stderr, '1 file has changes that are not committed: the preview includes them')
    const { metadata, ...rest } = JSON.parse(secret(planted[1] ?? ''))
    const immutable = { ...rest, metadata, type: 'example.com/other' }
    await writeFile(join(broken, 'manifests/new.yaml'), map('new', '1'))
    await writeFile(join(broken, 'manifests/token.yaml'), JSON.stringify(immutable))
    const failing = await preview(job, broken, '--values')
    t.equal(failing.code, 4)
    t.ok(shownIn(linesOf(failing.stdout)).includes('fails Secret token'), failing.stdout)
    t.match(failing.stdout, 'type: Invalid value; keys and values of Secrets are not shown')
  })

  await t.test('after the merge the job waits, and what was shown has come', async (t) => {
    await git('checkout', '--quiet', 'main')
    await git('merge', '--quiet', '--ff-only', 'change')
    await push()
    const { code, stdout, stderr } = await example.run('wait', clone, variables(changed, 101))
    printed.push(stdout, stderr)
    t.equal(code, 0, stderr)
    const read = async (kind: string, name: string) =>
      JSON.parse((await kubectl('get', kind, name, '-n', 'shop', '-o', 'json', '--ignore-not-found')) || 'null')
    t.match(await read('configmap', 'new'), { data: { value: '1' } })
    t.match(await read('configmap', 'page'), { data: { value: 'changed' } })
    t.equal(await read('configmap', 'old'), null)
    t.match(await read('secret', 'token'), { data: { token: Buffer.from(planted[1] ?? '').toString('base64') } })
  })

  await t.test('nothing is left to change, and the note says so', async (t) => {
    const { code, stdout, stderr, report } = await example.run('preview', clone, variables(changed, 102))
    printed.push(stdout, stderr)
    t.equal(code, 0, stderr)
    t.match(stdout, /^Nothing would change: /m)
    t.strictSame(JSON.parse(report ?? ''), { create: 0, update: 0, delete: 0 })
    t.equal(gitlab.notes.length, 1)
    t.match(gitlab.notes[0]?.body, /pipeline=102 -->[\s\S]*Nothing would change/)
  })

  await t.test('a branch that lacks the commit in the cluster: the first line says so', async (t) => {
    await git('checkout', '--quiet', '-b', 'stale', main)
    await commit({ 'manifests/other.yaml': map('other', '1') })
    await push()
    const stale = await ground.jobClone('stale', 'stale')
    const { stdout } = await runKas(['diff', stale, '--source', sourceId], job)
    t.match(stdout.split('\n')[0], `unknown: does this branch have commit ${changed.slice(0, 8)}`)
    const { stdout: whole } = await runKas(['diff', ground.clone, '--source', sourceId], job)
    t.equal(
      whole.split('\n')[0],
      `this branch lacks commit ${changed.slice(0, 8)}, which is in the cluster: merge or rebase first`,
    )
  })

  await t.test('planted values are in no output, log, state, event or metric', async (t) => {
    const { stack, folder, ports } = ground
    const names = [...stack.replicas.map(({ name }) => replicaFiles(name).log), files.agentkLog]
    for (const name of names) printed.push(await readFile(join(folder, name), 'utf8'))
    const access = { ca: stack.access.authority, token: stack.access.userCredential }
    printed.push((await httpsGet(`https://127.0.0.1:${ports.kubernetes}/gitops/state`, access)).body)
    for (const replica of stack.replicas) {
      const answer = await fetch(`http://127.0.0.1:${replica.ports.ops}/metrics`)
      printed.push(await answer.text())
    }
    printed.push(await kubectl('get', 'events', '-A', '-o', 'json'))
    printed.push(...gitlab.notes.map(({ body }) => body))
    const all = printed.join('\n')
    const forms = [...planted, ...planted.map((value) => Buffer.from(value).toString('base64')), botToken]
    for (const form of forms) t.notOk(all.includes(form), form)
    t.match(all, /"path":"[^"]*gitops\/diff/, 'the access log has the previews')
  })
})
