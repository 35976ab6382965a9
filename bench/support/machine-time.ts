/** Returns the time that all processes of this machine share, unlike `performance.now()`. ms */
export function machineTime(): number {
  return Number(process.hrtime.bigint()) / 1e6
}
