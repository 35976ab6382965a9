import { execFile } from 'node:child_process'
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { nodeEnvironment } from '../../../dev/node-flags.ts'
import { LocalStack } from '../../../dev/start/local-stack.ts'
import { anyPorts, replicaCount } from '../../../dev/start/ports.ts'
import { files } from '../../../dev/start/settings.ts'
import { startGitHttpsServer } from '../../support/git-https-server.ts'
import { GitRepository } from '../../support/git-repository.ts'
import { patience } from '../../support/slowness.ts'
import { imagesOfTree } from './images-of-tree.ts'
import { MadeImages } from './made-images.ts'
import { startSshServer } from './ssh-server.ts'
import { lacking } from './unpacked-runc.ts'

/** Containers of the images work for any user, without the rights that a pod may lack, and end in order. */

const run = promisify(execFile)
/** graces of the replicas; beyond these they take at most 10 s to end in order */
const graces = { listen: '1s', shutdown: '3s' }
const [listenMs, shutdownMs, orderMs] = [1_000, 3_000, 10_000]
/** time after which agentk cuts running calls */
const agentkMs = 25_000
const inTime = () => AbortSignal.timeout(patience(60_000))
const skip = (await lacking()) ?? false

t.test('containers', { skip, timeout: 200_000 }, async (t) => {
  const images = await MadeImages.given(t, await imagesOfTree(), 'kas', 'agentk')
  const folderOf = async (name: string) => {
    const folder = join(images.folder, name)
    await mkdir(folder, { mode: 0o700 })
    return folder
  }

  /** Runs a replica and an agentk until each has ended after SIGTERM. */
  async function play(t: Test, name: string, user: string): Promise<void> {
    const folder = await folderOf(name)
    const environment = { ...nodeEnvironment, TMPDIR: '/tmp' }
    const programs = {
      kas: images.program('kas', `${user},own`),
      agentk: images.program('agentk', `${user},own`),
      environment,
    }
    const ports = await anyPorts(replicaCount)
    const none = { kubeconfig: undefined, assets: undefined }
    const stack = new LocalStack({ folder, ports, programs, graces, first: 1, ...none })
    t.teardown(() => stack.stop(AbortSignal.abort()))
    // a call goes through both; for it kas fetches the agent's repository into /tmp
    await stack.start()
    const began = performance.now()
    await stack.replaceAgentk(inTime())
    const agentkTookMs = performance.now() - began
    t.match(await readFile(join(folder, files.agentkLog), 'utf8'), /"msg":"Stopped"/)
    t.ok(agentkTookMs < patience(agentkMs), `agentk: ${agentkTookMs} ms, the start of another one among them`)
    const [replica] = stack.replicas
    const left = performance.now()
    await replica?.stop(inTime())
    const tookMs = performance.now() - left
    t.match(await readFile(replica?.log ?? '', 'utf8'), /"msg":"Stopped"/)
    t.ok(tookMs >= listenMs, `kas: ${tookMs} ms`)
    t.ok(tookMs < listenMs + shutdownMs + patience(orderMs), `kas: ${tookMs} ms`)
  }

  await t.test('as another user: they serve, and SIGTERM ends them in their graces', (t) =>
    play(t, 'other', '1000650000'),
  )

  await t.test('as root, without its powers: they serve, and SIGTERM ends them in their graces', (t) =>
    play(t, 'root', '0'),
  )

  await t.test('without /tmp kas says what it misses before it serves, and what else it does needs none', async (t) => {
    const folder = await folderOf('bare')
    const written = async (name: string, content: object) => {
      await writeFile(join(folder, name), JSON.stringify(content))
      return join(folder, name)
    }
    const listen = { address: '127.0.0.1:0' }
    const configuration = await written('kas.yaml', {
      directory: { file: await written('directory.yaml', {}) },
      agent: { listen, kubernetes_api: { listen } },
      observability: { listen },
      ops: { socket: join(folder, 'kas.sock') },
    })
    const { TMPDIR: _, ...env } = process.env
    const [command = '', ...args] = images.program('kas', '65532,ro')
    const kas = (...words: string[]) =>
      run(command, [...args, ...words, `--configuration-file=${configuration}`], { cwd: folder, env })
    const { code, stderr } = await kas().then(
      () => ({ code: 0, stderr: '' }),
      (error: { code: number; stderr: string }) => error,
    )
    t.strictSame(
      [code, stderr.trimEnd().split('\n').at(-1)],
      [
        1,
        'kas: environment: TMPDIR: no folder can be made in /tmp (EROFS): mount a volume there that is writable, or name one',
      ],
    )
    t.match((await kas('check-config')).stdout, /can be used/)
  })

  await t.test('git of the image reads repositories by https and by ssh', async (t) => {
    const folder = await folderOf('git')
    const repository = await GitRepository.create(folder, 'clusters')
    const head = await repository.push('a.txt', 'text')
    const https = await startGitHttpsServer(t, folder, () => true)
    const ssh = await startSshServer(t, folder)
    const state = await folderOf('git-state')
    await cp(ssh.clientFiles, join(state, 'ssh'), { recursive: true })
    await writeFile(join(state, 'ca.pem'), https.ca)
    const [command = '', ...args] = images.program('kas', '65532')
    const lsRemote = async (url: string) => {
      const script = `
        const { chmodSync, cpSync } = require('node:fs')
        cpSync('ssh', '/tmp/.ssh', { recursive: true })
        chmodSync('/tmp/.ssh/id_ed25519', 0o600)
        const words = ['ls-remote', ${JSON.stringify(url)}, 'HEAD']
        process.exitCode = require('node:child_process').spawnSync('git', words, { stdio: 'inherit' }).status`
      const env = { ...process.env, GIT_SSL_CAINFO: join(state, 'ca.pem'), GIT_TERMINAL_PROMPT: '0' }
      return (await run(command, [...args, '--', '/usr/bin/node', '-e', script], { cwd: state, env })).stdout
    }
    t.equal(await lsRemote(`${https.origin}/clusters.git`), `${head}\tHEAD\n`, 'https')
    t.equal(await lsRemote(`ssh://root@127.0.0.1:${ssh.port}${repository.path}`), `${head}\tHEAD\n`, 'ssh')
  })

  await t.test('ssh of the image wants a user whom /etc/passwd has', async (t) => {
    const cwd = await folderOf('ssh')
    const as = (user: string) => {
      const [command = '', ...args] = images.program('kas', user)
      return run(command, [...args, '--', '/usr/bin/ssh', '-G', 'git.example.com'], { cwd })
    }
    t.match((await as('65532')).stdout, /^hostname git\.example\.com$/m)
    await t.rejects(as('1000650000'), /No user exists for uid 1000650000/)
  })
})
