export interface Failure {
  name: string
  details: string
}

export interface Skip {
  name: string
  reason: string
}

/** What one test file came to. A test is a subtest without subtests of its own, or a file that has none. */
export interface FileResult {
  file: string
  durationMs: number
  passed: number
  failures: Failure[]
  skips: Skip[]
  /** comments of its tests, such as tables, in their order */
  comments: string[]
  /** what the file wrote beside its results */
  output: string
}

export const emptyResult = (file: string): FileResult => ({
  file,
  durationMs: 0,
  passed: 0,
  failures: [],
  skips: [],
  comments: [],
  output: '',
})
