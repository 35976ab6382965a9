import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { TornDown } from '../processes.ts'

const logs = (folder: string) =>
  JSON.stringify({ kind: 'KubeletConfiguration', apiVersion: 'kubelet.config.k8s.io/v1beta1', podLogsDir: folder })

/** A kubelet removes the logs of Pods that it does not know: each node keeps its own in a folder of its own. */
const kubelet = (real: string) => `#!/bin/sh
for word; do
  case $word in --config=*) folder=\${word#--config=} folder=\${folder%/*} ;; esac
done
mkdir -p "$folder/logs" "$folder/more"
echo '${logs('@')}' | sed "s|@|$folder/logs|" >"$folder/more/logs.conf"
exec "${real}" "$@" --config-dir="$folder/more"
`

/**
 * The programs of nodes, with a kubelet that keeps to itself.
 *
 * @param nodes - path of the program that starts nodes
 * @returns the folder, for `KUBETEST_NODE_ASSETS`
 */
export function nodePrograms(t: TornDown, nodes: string): string {
  const given = process.env.KUBETEST_NODE_ASSETS
  const assets = given ?? execFileSync(join(dirname(nodes), 'node-assets'), { encoding: 'utf8' }).trim()
  const folder = mkdtempSync(join(tmpdir(), 'node-programs-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  for (const name of readdirSync(assets)) {
    if (name !== 'kubelet') symlinkSync(join(assets, name), join(folder, name))
  }
  writeFileSync(join(folder, 'kubelet'), kubelet(join(assets, 'kubelet')), { mode: 0o755 })
  return folder
}
