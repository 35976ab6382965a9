import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'

const cache = join(import.meta.dirname, '../../../node_modules/.cache/node-programs')

const logs = (folder: string) =>
  JSON.stringify({ kind: 'KubeletConfiguration', apiVersion: 'kubelet.config.k8s.io/v1beta1', podLogsDir: folder })

/** Starts a kubelet with a log folder of its own: a kubelet removes the logs of Pods that it does not know. */
const kubelet = (real: string) => `#!/bin/sh
for word; do
  case $word in --config=*) folder=\${word#--config=} folder=\${folder%/*} ;; esac
done
mkdir -p "$folder/logs" "$folder/more"
echo '${logs('@')}' | sed "s|@|$folder/logs|" >"$folder/more/logs.conf"
exec "${real}" "$@" --config-dir="$folder/more"
`

/**
 * Makes the programs of nodes, with a kubelet that has its own log folder. They are made once, and cached beside other
 * compiled programs.
 *
 * @param nodes - path of the program that starts nodes
 * @returns the folder, for `KUBETEST_NODE_ASSETS`
 */
export function nodePrograms(nodes: string): string {
  const given = process.env.KUBETEST_NODE_ASSETS
  const assets = given ?? execFileSync(join(dirname(nodes), 'node-assets'), { encoding: 'utf8' }).trim()
  const script = kubelet(join(assets, 'kubelet'))
  const folder = join(cache, createHash('sha256').update(script).digest('hex').slice(0, 12))
  if (existsSync(folder)) return folder
  mkdirSync(cache, { recursive: true })
  const part = mkdtempSync(join(cache, 'part-'))
  for (const name of readdirSync(assets)) {
    if (name !== 'kubelet') symlinkSync(join(assets, name), join(part, name))
  }
  writeFileSync(join(part, 'kubelet'), script, { mode: 0o755 })
  try {
    renameSync(part, folder)
  } catch (error) {
    rmSync(part, { recursive: true })
    if (!existsSync(folder)) throw error // another process was first
  }
  return folder
}
