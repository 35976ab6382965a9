import { spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { mainOf } from '../support/programs.ts'

/** The commands of doc/guide/gitops.md, "A first sync", run in a shell. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const project = resolve(import.meta.dirname, '../..')

t.test('the first sync of the documentation', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const folder = await mkdtemp(join(tmpdir(), 'tutorial-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  await cp(join(project, 'deploy/gitops-example'), join(folder, 'gitops-example'), { recursive: true })
  const bin = join(folder, 'bin')
  await mkdir(bin)
  for (const name of ['kas', 'agentk'] as const) {
    const script = `#!/bin/sh\nexec '${process.execPath}' '${mainOf(name)}' "$@"\n`
    await writeFile(join(bin, name), script, { mode: 0o755 })
  }
  const ports = await freePorts(2)
  const [agents, kubernetes] = ports.map(String) as [string, string]
  const doc = await readFile(join(project, 'doc/guide/gitops.md'), 'utf8')
  const [, lines = ''] = /## A first sync[\s\S]*?```sh\n([\s\S]*?)```/.exec(doc) ?? []
  t.match(lines, '127.0.0.1:8150')
  const typed = lines.replaceAll('8150', agents).replaceAll('8154', kubernetes)
  const script = `set -e\ntrap 'kill $(jobs -p)' EXIT\n${typed}`
  const { kubeconfig } = controlPlane
  const identity = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' }
  const committer = { GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' }
  const PATH = `${bin}:${assets}:${process.env.PATH}`
  const env = { ...identity, ...committer, PATH, HOME: folder, KUBECONFIG: kubeconfig }
  const shell = spawn('bash', ['-c', script], { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => {
    try {
      process.kill(-(shell.pid ?? 0), 'SIGKILL')
    } catch {} // it and its children have ended
  })
  const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr)])
  t.match(out, /^platform\/shop +- +SYNCED +(\w{8}) +\1 +4\/4 +0 /m, err)
  t.match(out, /deployment\.apps\/web/)
})
