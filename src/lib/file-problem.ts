/** Reason why a file cannot be read, in the system's words, with advice if they do not say it. */
export function fileProblem(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'EACCES' ? `${message}: let the user of this process (uid ${process.getuid?.()}) read it` : message
}
