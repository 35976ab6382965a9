import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { exampleFor } from '../../dev/start/example-repository.ts'
import { LocalStack } from '../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../dev/start/ports.ts'
import { tellPush } from '../../dev/start/push-watch.ts'
import { files } from '../../dev/start/settings.ts'
import { runCli } from '../../src/kas/cli/cli.ts'
import { httpsGet } from '../support/https-get.ts'
import { runKas } from '../support/kas-command.ts'
import { testPrograms } from '../support/programs.ts'

/** `kas gitops status --commit SHA --wait`, right after `git push`, beside three replicas, an agentk and the API double. */

const exec = promisify(execFile)
/** number of pushes with an announcement, and as many without */
const pushes = Number(process.env.KAS_GATE_PUSHES ?? 4)
const maps = '/api/v1/namespaces/shop/configmaps'

async function start(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'gitops-gate-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const ports = await anyPorts(replicaCount)
  const example = (await exampleFor('double'))?.files
  const stack = new LocalStack({
    folder,
    ports,
    programs: testPrograms,
    kubeconfig: undefined,
    assets: undefined,
    example,
  })
  t.teardown(() => stack.stop(AbortSignal.abort()))
  await stack.start()
  const { authority: ca, userCredential: token } = stack.access
  const clone = join(stack.folder, files.clone)
  const git = async (...args: string[]) => (await exec('git', args, { cwd: clone })).stdout.trim()
  const commit = async (path: string, content: string) => {
    await writeFile(join(clone, path), content)
    await git('add', '.')
    await git('commit', '-qm', 'change')
    return await git('rev-parse', 'HEAD')
  }
  return {
    stack,
    status: (...args: string[]) => runKas(['gitops', 'status', ...args], join(stack.folder, files.kubeconfig)),
    read: async (name: string) => {
      const answer = await httpsGet(`https://127.0.0.1:${ports.kubernetes}${maps}/${name}`, { ca, token })
      return answer.status === 200 ? (JSON.parse(answer.body) as { data: { value: string } }).data.value : undefined
    },
    git,
    commit,
    push: async (path: string, content: string) => {
      const made = await commit(path, content)
      await git('push', '-q')
      return made
    },
  }
}

const map = (name: string, value: string) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'shop' }, data: { value } })

t.test('the gate of a pipeline', { timeout: 336_000 + 2 * pushes * 3000 }, async (t) => {
  const { stack, status, read, commit, push, git } = await start(t)

  await t.test('right after a push it is 0 once the object is there, and not before', async (t) => {
    for (let i = 0; i < 2 * pushes; i++) {
      const pushed = await push('manifests/gate.yaml', map('gate', String(i)))
      if (i % 2 === 0) await tellPush(stack.folder, stack.replicas[i % replicaCount]?.ports.rails ?? 0)
      const beganAt = performance.now()
      const { code, stdout, stderr } = await status('--commit', pushed, '--wait', '2m')
      const value = await read('gate')
      t.equal(code, 0, `push ${i}: ${stdout}${stderr}`)
      t.equal(value, String(i), `push ${i}: the object is there, after ${Math.round(performance.now() - beganAt)} ms`)
    }
  })

  await t.test('a commit is followed by another: the later one counts, and is named', async (t) => {
    const first = await push('manifests/gate.yaml', map('gate', 'first'))
    const waiting = status('--commit', first, '--wait', '2m')
    t.match(await waiting, { code: 0 })
    const second = await push('manifests/gate.yaml', map('gate', 'second'))
    t.match(await status('--commit', second.slice(0, 10), '--wait', '2m'), { code: 0 })
    const cameAfter = new RegExp(`${second.slice(0, 8)} came after ${first.slice(0, 8)}, and is in the cluster`)
    t.match(await status('--commit', first), { code: 0, stderr: cameAfter })
  })

  await t.test(
    'a commit is overtaken in one push: its history has it; that of another branch is in none',
    async (t) => {
      const overtaken = await commit('manifests/gate.yaml', map('gate', 'overtaken'))
      const head = await push('manifests/gate.yaml', map('gate', 'head'))
      const cameAfter = new RegExp(`${head.slice(0, 8)} came after ${overtaken.slice(0, 8)}, and is in the cluster`)
      t.match(await status('--commit', overtaken, '--wait', '2m'), { code: 0, stderr: cameAfter })
      t.equal(await read('gate'), 'head')
      const elsewhere = await git('commit-tree', `${head}^{tree}`, '-p', head, '-m', 'elsewhere')
      await git('push', '--quiet', 'origin', `${elsewhere}:refs/heads/elsewhere`)
      t.match(await status('--commit', elsewhere), {
        code: 5,
        stderr: new RegExp(`commit ${elsewhere.slice(0, 8)} is in no source`),
      })
    },
  )

  await t.test('--fresh: 0 only at the head, and the answer says how old it is', async (t) => {
    await push('manifests/gate.yaml', map('gate', 'fresh'))
    const { code } = await status('--fresh')
    if (code === 0) t.equal(await read('gate'), 'fresh')
    t.match(await status(), {
      stdout: /the repositories were polled \d+s ago \(kas gitops status --fresh polls them now\)/,
    })
  })

  /** Waits for a commit. @returns `paused`: resolves once the gate has named the paused source */
  const waitWhilePaused = (commit: string, time: string) => {
    const { promise: paused, resolve } = Promise.withResolvers<void>()
    let stderr = ''
    const write = (text: string) => {
      stderr += text
      if (stderr.includes(' is paused, ')) resolve()
    }
    const env = { KUBECONFIG: join(stack.folder, files.kubeconfig) }
    const io = { env, stdout: { write: () => undefined }, stderr: { write }, stdin: Readable.from([]) }
    return { ended: runCli(['gitops', 'status', '--commit', commit, '--wait', time], io), paused, said: () => stderr }
  }

  await t.test('a paused source is named while the gate waits, and the gate goes on once it is resumed', async (t) => {
    const kubeconfig = join(stack.folder, files.kubeconfig)
    const id = (await status('-o', 'name')).stdout.trim().replace('source/', '')
    t.match(id, /^\d+-\d+$/)
    const direct = (word: string) => runKas(['gitops', word, id, '--yes'], kubeconfig)
    t.match(await direct('pause'), { code: 0, stdout: `${id} is paused: kas gitops resume ${id} ends that` })
    const pushed = await push('manifests/gate.yaml', map('gate', 'resumed'))
    const gate = waitWhilePaused(pushed, '2m')
    await Promise.race([gate.paused, gate.ended])
    t.match(gate.said(), `is paused, and applies no commit: kas gitops resume ${id} ends the pause\n`)
    t.not(await read('gate'), 'resumed')
    t.match(await direct('resume'), { code: 0 })
    t.equal(await gate.ended, 0, gate.said())
    t.equal(await read('gate'), 'resumed')
  })

  await t.test(
    'a ref that is pushed by force while one waits: its commit is in no history, and is not 0',
    async (t) => {
      const kubeconfig = join(stack.folder, files.kubeconfig)
      const id = (await status('-o', 'name')).stdout.trim().replace('source/', '')
      t.match(await runKas(['gitops', 'pause', id, '--yes'], kubeconfig), { code: 0 })
      const before = await git('rev-parse', 'HEAD')
      const discarded = await push('manifests/gate.yaml', map('gate', 'discarded'))
      const gate = waitWhilePaused(discarded, '30s')
      await Promise.race([gate.paused, gate.ended]) // the commit was at the head
      await git('reset', '--hard', before)
      const other = await commit('manifests/gate.yaml', map('gate', 'other'))
      await git('push', '--quiet', '--force', 'origin', 'main')
      t.match(await status('--commit', other), { code: 3 }, 'kas knows the new head, and the pause goes on')
      t.match(await runKas(['gitops', 'resume', id, '--yes'], kubeconfig), { code: 0 })
      t.match(await status('--commit', other, '--wait', '2m'), { code: 0 })
      t.equal(await gate.ended, 5, gate.said())
      t.match(gate.said(), `commit ${discarded.slice(0, 8)} was at its head, and is not found in its history now`)
      t.equal(await read('gate'), 'other')
    },
  )

  await t.test('what is refused is 1, what fails is 4, what is not known is 5', async (t) => {
    const broken = await push('manifests/gate.yaml', 'kind: [')
    t.match(await status('--commit', broken, '--wait', '2m'), { code: 1, stderr: /REFUSED.*gate\.yaml/ })
    const service = '{apiVersion: v1, kind: Service, metadata: {name: gate, namespace: shop}}'
    const failing = await push('manifests/gate.yaml', service)
    t.match(await status('--commit', failing, '--wait', '2m'), { code: 4, stderr: /FAILING/ })
    t.match(await status('--commit', '0'.repeat(40)), { code: 5, stderr: /is in no source/ })
    t.match(await status('--source', 'nobody', '--wait', '1m'), {
      code: 5,
      stderr: /no source nobody; there are: demo/,
    })
  })
})
