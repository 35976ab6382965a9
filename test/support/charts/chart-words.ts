import { findHelm, helm, type Rendering, render } from '../../../dev/charts/helm.ts'

export const helmProgram = findHelm()
/** reason to skip tests of charts where there is no helm */
export const skip = helmProgram === undefined && 'needs helm, on the PATH or in KAS_RENDERERS'

export const rendered = (rendering: Rendering): Promise<string> => render(helmProgram ?? '', rendering)
export const runHelm = (args: readonly string[]): Promise<string> => helm(helmProgram ?? '', args)

/** Returns helm's refusal of values, without the place in the chart. @throws Error if helm accepts them */
export async function refusal(rendering: Rendering): Promise<string> {
  const words = await rendered(rendering).then(
    () => undefined,
    (error: Error) => error.message,
  )
  if (words === undefined) throw new Error('the chart takes these values')
  const own = /execution error at \([^)]*\): (.*)/.exec(words)?.[1]
  return (
    own ??
    words
      .split('\n')
      .filter((line) => line.startsWith('- '))
      .join('\n')
      .replaceAll(/^- /gm, '')
  )
}
