import { spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { freePorts } from '../../dev/control-plane/free-ports.ts'
import { signalGroup } from '../support/local-start.ts'
import { mainOf } from '../support/programs.ts'

/** The commands of doc/guide/gitops.md, "A first sync" and "Undo a commit", run in a shell. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'all')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
const project = resolve(import.meta.dirname, '../..')

const badCommit = `
cat > shop/manifests/bad.yaml <<END
{ apiVersion: v1, kind: ConfigMap, metadata: { name: bad, namespace: shop } }
END
git -C shop add . && git -C shop commit -qm Bad
BAD=$(git -C shop rev-parse HEAD)
kas gitops status --kubeconfig ada.kubeconfig --commit $BAD --wait 1m
kubectl get configmap bad -n shop
SOURCE=$(kas gitops status --kubeconfig ada.kubeconfig -o name | cut -d/ -f2-)
`
const afterUndo = `
kas gitops resync $SOURCE --yes
names=$(kubectl --kubeconfig $ADMIN get configmaps -n shop -o name)
grep -q /bad <<< "$names" && echo 'the bad object is still there' || echo 'it is undone'
`

/** commands of doc/guide/drift.md; the second one waits until agentk has seen the change */
const byHand = `
kubectl --kubeconfig $ADMIN patch deployment web -n shop --type json -p '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"changed:1"}]'
until kas gitops status | grep -q 'changed in the cluster'; do sleep 0.2; done
kas gitops hold deploy/web -n shop --for 1h
kas gitops drift $SOURCE || echo "drift: exit code $?"
kas gitops drift $SOURCE --scan -o json | grep compared
kas gitops resync $SOURCE --yes
until kubectl --kubeconfig $ADMIN get deployment web -n shop -o yaml | grep -q 'image: nginx'; do sleep 0.2; done
until kas gitops drift $SOURCE --scan; do sleep 0.2; done
`

/** a commit that is applied, and never runs: nobody may make its Pods */
const stuck = `
cat > shop/manifests/stuck.yaml <<END
apiVersion: apps/v1
kind: Deployment
metadata: { name: stuck, namespace: shop }
spec:
  selector: { matchLabels: { app: stuck } }
  template:
    metadata: { labels: { app: stuck } }
    spec: { serviceAccountName: nobody, containers: [{ name: stuck, image: "nginx:1" }] }
END
git -C shop add . && git -C shop commit -qm Stuck
kas gitops wait --commit $(git -C shop rev-parse HEAD) --timeout 2m || echo "wait: exit code $?"
`

/** Returns the commands of "Undo a commit", for a repository without a remote and an agent without views. */
function undoingOf(doc: string): string {
  const [, lines = ''] = /## Undo a commit[\s\S]*?```sh\n([\s\S]*?)```/.exec(doc) ?? []
  t.match(lines, /kas gitops pause/)
  const here = lines.split('\n').filter((line) => !/^git -C shop push$|^kas health /.test(line))
  return here.join('\n').replaceAll('42-7', '$SOURCE').replace('5d3c05aa ', '$BAD ')
}

t.test('the first sync of the documentation, and how to undo a commit', { skip, timeout: 180_000 }, async (t) => {
  const controlPlane = new ControlPlane({ assets, parts: 'all' })
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
  const script = `set -e\nADMIN=$KUBECONFIG\ntrap 'kill $(jobs -p)' EXIT\n${typed}\n${badCommit}\n${undoingOf(doc)}\n${afterUndo}\n${byHand}\n${stuck}`
  const { kubeconfig } = controlPlane
  const identity = { GIT_AUTHOR_NAME: 'Ada', GIT_AUTHOR_EMAIL: 'ada@example.com' }
  const committer = { GIT_COMMITTER_NAME: 'Ada', GIT_COMMITTER_EMAIL: 'ada@example.com' }
  const PATH = `${bin}:${assets}:${process.env.PATH}`
  const env = { ...identity, ...committer, PATH, HOME: folder, KUBECONFIG: kubeconfig }
  const shell = spawn('bash', ['-c', script], { cwd: folder, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  t.teardown(() => {
    if (shell.exitCode === null && shell.signalCode === null) signalGroup(shell, 'SIGKILL')
  })
  const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr)])
  t.match(out, /^platform\/shop +- +SYNCED +(\w{8}) +\1 +4\/4 +0 +0 +healthy /m, err)
  t.match(out, /deployment\.apps\/web/)
  t.match(out, /^it is undone$/m, err)
  t.match(out, /is paused: kas gitops resume/)
  t.match(out, /leaves deploy\/web as it is until/)
  t.match(
    out,
    /^Deployment shop\/web: changed in the cluster: .*image, by kubectl-patch \(Update\), \d+s ago; stays for (60|59)m/m,
  )
  t.match(out, /^ {4}Git: {5}"nginx.*\n {4}cluster: "changed:1"$/m)
  t.match(out, /^drift: exit code 1$/m)
  t.match(out, /^compared 4 of 4 objects: nothing differs from Git$/m)
  t.match(out, /^wait: exit code 4$/m)
  t.match(err, /Deployment shop\/stuck: degraded: .*serviceaccount "nobody" not found/)
})
