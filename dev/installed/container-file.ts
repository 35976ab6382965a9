import { readFileSync } from 'node:fs'

export type ProgramName = 'kas' | 'agentk'

/** What the images are made by, for those who do the same without a container. */
export interface ContainerFile {
  /** the shell's line of the RUN that installs the package */
  readonly install: string
  /** the folder in which that line finds the package */
  readonly context: string
  /** the words of each image's ENTRYPOINT */
  readonly entrypoints: Readonly<Record<ProgramName, readonly string[]>>
}

/** @throws Error that names what the file lacks */
export function readContainerFile(path: string): ContainerFile {
  const lines = readFileSync(path, 'utf8').replaceAll('\\\n', ' ').split('\n')
  const run = lines.find((line) => /^RUN .*\bnpm install\b/.test(line))
  const [, flags = '', install] = /^RUN ((?:--\S+ +)*)(.*)$/.exec(run ?? '') ?? []
  const [, context] = /--mount=\S*\btarget=([^,\s]+)/.exec(flags) ?? []
  if (install === undefined || context === undefined) {
    throw new Error(`${path} has no RUN --mount=...,target=FOLDER ... npm install`)
  }
  const entrypointOf = (stage: ProgramName): string[] => {
    const start = lines.findIndex((line) => new RegExp(`^FROM .* AS ${stage}$`).test(line))
    const end = lines.findIndex((line, i) => i > start && line.startsWith('FROM '))
    const own = start < 0 ? [] : lines.slice(start, end < 0 ? undefined : end)
    const entrypoint = own.find((line) => line.startsWith('ENTRYPOINT '))
    if (!entrypoint) throw new Error(`${path} has no stage ${stage} with an ENTRYPOINT`)
    return JSON.parse(entrypoint.slice('ENTRYPOINT '.length)) as string[]
  }
  return { install, context, entrypoints: { kas: entrypointOf('kas'), agentk: entrypointOf('agentk') } }
}
