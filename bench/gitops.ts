/**
 * How soon does a commit become the cluster, and what does it cost? A real API server, kas and agentk as in production,
 * and a Git repository of 1,000 objects; beside them `kubectl apply --server-side --prune` of the same set.
 *
 * Options: `--objects N`, `--pushes N` of `--changed N` objects each, `--settle N` seconds before memory is read;
 * `--alone`: without kubectl; `--installed`: the programs of the images.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { missingAssets } from '../dev/control-plane/assets.ts'
import { TemporaryInstallation } from '../dev/installed/temporary-installation.ts'
import { sourcePrograms } from '../dev/start/local-programs.ts'
import { createApplySet } from './gitops/apply-set.ts'
import { agentkUser, type Ground, startGround } from './gitops/ground.ts'
import { ObjectSet } from './gitops/objects.ts'
import { SeenObjects } from './gitops/seen-objects.ts'
import { agentkNamespace } from './hop/ours.ts'
import { rssMiB } from './start/ground.ts'
import { machineTime } from './support/machine-time.ts'
import { readOptions, refuse } from './support/options.ts'
import { percentile } from './support/percentile.ts'
import { cpuSeconds, Programs } from './support/programs.ts'

const options = readOptions({ objects: 1000, pushes: 20, changed: 5, settle: 10 }, ['alone', 'installed'])
const { objects, pushes, changed } = options
const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
if (missing.length > 0) refuse(`gitops needs ${missing.join(', ')} in KUBEBUILDER_ASSETS`)

const settleMs = options.settle * 1000
/** limit for writes on their way when a state is reported: GitSync gets it a moment later. ms */
const lateWritesMs = 3000
const syncTimeoutMs = 120_000

const results: Record<string, number> = {}
const stops: (() => Promise<unknown>)[] = []
const folder = mkdtempSync(join(tmpdir(), 'bench-gitops-'))
const programs = new Programs()
const installation = new TemporaryInstallation({ onStep: (text) => process.stderr.write(`${text}\n`) })
try {
  if (options.installed) await installation.start()
  const run = options.installed ? installation.programs : sourcePrograms
  const ground = await startGround(programs, { assets, folder, run }, (stop) => stops.push(stop))
  await ours(ground)
  if (!options.alone) await kubectl(ground)
} finally {
  for (const stop of stops.toReversed()) await stop()
  programs.stop()
  await installation.stop()
  rmSync(folder, { recursive: true, force: true })
}
const commit = execFileSync('git', ['rev-parse', '--short', 'HEAD'], { encoding: 'utf8' }).trim()
console.log(JSON.stringify({ bench: 'gitops', objects, commit, node: process.version, cpus: cpus().length, results }))

function tell(figure: string, value: number): void {
  results[figure] = Number(value.toPrecision(3))
  console.log(`${figure.padEnd(72)}${results[figure]}`)
}

function timeout(): AbortSignal {
  return AbortSignal.timeout(syncTimeoutMs)
}

async function ours(ground: Ground): Promise<void> {
  const set = new ObjectSet('agentk', objects)
  const seen = new SeenObjects(ground.controlPlane.admin, 'agentk')
  stops.push(async () => seen.stop())
  seen.start()
  await sleep(settleMs)
  tell('agentk, RSS without GitOps, MiB', rssMiB(ground.agentkPid))
  const configuration = { gitops: { manifest_projects: [{ paths: [{ glob: 'agentk/**' }] }] } }
  const files = { '.gitlab/agents/prod/gitops.yaml': JSON.stringify(configuration), ...set.files() }
  let commit = await ground.pushes.commit(files)
  const cpu = cpuSeconds(ground.agentkPid)
  const begun = machineTime()
  await ground.tell()
  tell(
    `first sync of ${set.count}: until the last object is there, s`,
    ((await seen.count(set.count, timeout())) - begun) / 1000,
  )
  await ground.synced(commit, timeout())
  tell('first sync: until it is told to be synced, s', (machineTime() - begun) / 1000)
  tell('first sync: CPU of agentk, s', cpuSeconds(ground.agentkPid) - cpu)
  await sleep(settleMs)
  tell('agentk, RSS after the first sync, MiB', rssMiB(ground.agentkPid))
  commit = await changes(ground, set, seen)
  await sleep(settleMs)
  tell('agentk, RSS after the pushes, MiB', rssMiB(ground.agentkPid))
  const from = ground.log.end
  await ground.restartAgentk()
  await ground.synced(commit, timeout())
  await sleep(lateWritesMs)
  const { calls, writes } = ground.log.asked(from, ({ user }) => user.username === agentkUser, agentkNamespace)
  tell('restart with nothing changed: writes of objects', writes)
  tell('restart with nothing changed: calls', calls)
  await sleep(settleMs)
  tell('agentk, RSS after the restart, MiB', rssMiB(ground.agentkPid))
}

/** @returns the last commit */
async function changes(ground: Ground, set: ObjectSet, seen: SeenObjects): Promise<string> {
  const times: number[] = []
  const [cpu, kasCpu, from] = [cpuSeconds(ground.agentkPid), cpuSeconds(ground.kasPid), ground.log.end]
  let commit = ''
  for (let push = 1; push <= pushes; push++) {
    commit = await ground.pushes.commit(changedFiles(set, push))
    const begun = machineTime()
    await ground.tell()
    times.push((await seen.version(String(push), changed, timeout())) - begun)
    await ground.synced(commit, timeout())
  }
  const { calls, writes } = ground.log.asked(from, ({ user }) => user.username === agentkUser, agentkNamespace)
  const name = `${changed} changed of ${set.count}, push to last applied`
  tell(`${name}: p50, ms`, percentile(times, 0.5))
  tell(`${name}: p99, ms`, percentile(times, 0.99))
  tell('a push: CPU of agentk, s', (cpuSeconds(ground.agentkPid) - cpu) / pushes)
  tell('a push: CPU of the kas that it is at, s', (cpuSeconds(ground.kasPid) - kasCpu) / pushes)
  tell('a push: calls', calls / pushes)
  tell('a push: writes of objects', writes / pushes)
  return commit
}

/** Returns the files of `changed` apps, each time others; one object of each has the number of the push. */
function changedFiles(set: ObjectSet, push: number): Record<string, string> {
  const apps = Array.from({ length: changed }, (_, i) => (push * changed + i) % set.apps)
  return Object.assign({}, ...apps.map((app) => set.file(app, String(push))))
}

/** Applies the same set with kubectl, in namespaces of its own, as an administrator. */
async function kubectl({ controlPlane, log }: Ground): Promise<void> {
  const set = new ObjectSet('kubectl', objects)
  const place = join(folder, 'manifests')
  const applySet = await createApplySet(controlPlane.admin)
  const write = (files: Record<string, string>) => {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(place, path)), { recursive: true })
      writeFileSync(join(place, path), text)
    }
  }
  const apply = async () => {
    // without an apply set, kubectl does not prune objects of server-side apply
    const flags = ['--server-side', '--prune', `--applyset=${applySet}`, '--recursive', '--filename', place]
    const argv = ['apply', ...flags, '--kubeconfig', controlPlane.kubeconfig]
    const env = { ...process.env, KUBECTL_APPLYSET: 'true' }
    const [begun, from] = [machineTime(), log.end]
    await promisify(execFile)(join(assets, 'kubectl'), argv, { env, maxBuffer: 16 * 1024 * 1024 })
    const ms = machineTime() - begun
    return { ms, ...log.asked(from, ({ userAgent = '' }) => userAgent.startsWith('kubectl')) }
  }
  write(set.files())
  tell(`kubectl apply of ${set.count}: the first time, s`, (await apply()).ms / 1000)
  write(changedFiles(set, 1))
  tell(`kubectl apply with ${changed} changed of ${set.count}, ms`, (await apply()).ms)
  const { ms, calls, writes } = await apply()
  tell('kubectl apply with nothing changed, ms', ms)
  tell('kubectl apply with nothing changed: calls', calls)
  tell('kubectl apply with nothing changed: writes', writes)
}
