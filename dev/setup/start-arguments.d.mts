export interface StartArguments {
  readonly kubeconfig: string | undefined
  readonly portBase: number | undefined
}
export const usedOffsets: readonly number[]
export const lastOffset: number
export function readStartArguments(args: readonly string[]): StartArguments | undefined
