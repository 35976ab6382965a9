import { closeSync, openSync } from 'node:fs'
import { KeptOutput } from '../../../../src/agentk/modules/gitops/render/program-output.ts'
import { RendererProcesses } from '../../../../src/agentk/modules/gitops/render/renderer-process.ts'
import { errorText } from '../../../../src/lib/errors.ts'

/** Tries a namespace and runs a program while no descriptor is free, and again when descriptors are free. */

const processes = new RendererProcesses({ path: '', keepsNetwork: true, maxMemoryKib: 1024 * 1024 })
const run = async (): Promise<string> => {
  const output = new KeptOutput(1024)
  const program = { program: '/bin/sh', args: ['-c', 'echo a: 1'], folder: '/', home: '/' }
  try {
    await processes.run(program, output, new AbortController().signal)
    return `${Buffer.from(output.bytes)}`
  } catch (error) {
    return `${errorText(error)}\n`
  }
}
const [, , path = ''] = process.argv
const reasons: string[] = []
const onNetworkKept = (reason: string) => void reasons.push(reason)
const withoutNetwork = new RendererProcesses({ path, maxMemoryKib: 1024 * 1024, onNetworkKept })
const tryNamespace = async (): Promise<string> => {
  try {
    return `network kept: ${await withoutNetwork.networkKept()}, ${reasons.length} reasons\n`
  } catch (error) {
    return `${errorText(error)}\n`
  }
}
const said = [await run()].slice(1) // the first run opens the descriptors that stay open
const taken: number[] = []
try {
  for (;;) taken.push(openSync('/dev/null', 'r'))
} catch (error) {
  if ((error as NodeJS.ErrnoException).code !== 'EMFILE') throw error
}
said.push(await run(), await tryNamespace())
for (const descriptor of taken) closeSync(descriptor)
said.push(await run(), await tryNamespace())
process.stdout.write(said.join(''))
